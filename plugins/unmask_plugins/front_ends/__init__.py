"""Image-to-image networks that stand before a classifier."""
