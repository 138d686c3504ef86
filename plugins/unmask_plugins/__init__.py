"""Every built-in model, front end, ensemble, gradient source, attack, metric, data set and recipe."""
