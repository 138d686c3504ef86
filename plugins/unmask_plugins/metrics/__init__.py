"""Measurements beyond the core ones."""
