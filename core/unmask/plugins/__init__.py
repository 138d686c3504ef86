"""The typed wall before pluggy: finding plugins, and the catalog of what they offer."""
