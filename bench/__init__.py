"""Benchmarks against peers and bare loops; see README.md."""
