"""A complete plugin for Unmask: two small attacks."""
