"""Preparing a model once, so that a search asks it faster: folded, reordered, compiled, in half precision."""
