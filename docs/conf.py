"""How Sphinx builds the documentation: ``sphinx-build -W docs docs/_build/html``."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Unmask"
author = "The Unmask authors"
project_copyright = "The Unmask authors"
release = version = installed_version("unmask")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "generated_reference",
    "repository_links",
]
exclude_patterns = ["_build", "_extensions"]

html_theme = "furo"
html_title = f"Unmask {release}"
html_copy_source = False
html_show_sphinx = False

# Pages link to headings of one another.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

# The notebook is committed with its outputs; docs/run_notebook.py executes it.
nb_execution_mode = "off"

# Docstrings follow Google's style and put names in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
maximum_signature_line_length = 80
