"""Searches for adversarial examples, one a file."""
