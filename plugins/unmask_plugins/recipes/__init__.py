"""Training recipes: how a model gets its weights where none are given."""
