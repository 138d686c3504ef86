"""Models made of models."""
