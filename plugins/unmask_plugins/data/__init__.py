"""Data sets that come with Unmask."""
