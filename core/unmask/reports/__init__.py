"""Reports: from a result to words and tables."""
