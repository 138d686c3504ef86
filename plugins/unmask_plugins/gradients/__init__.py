"""Gradient sources: where a search gets its direction from."""
