"""Manifests: evaluation runs as TOML."""
