"""Classifiers that come with Unmask."""
