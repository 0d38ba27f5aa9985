"""How the pages become a site: `make docs`."""

import json
import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

project = "chary"
version = release = installed("chary")
author = copyright = "the authors of chary"

# The last but one copies MathJax into the site, which so needs no network.
extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "program",
]
exclude_patterns = ["figures", "style"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# NOTEBOOKS=off leaves them as they are written; otherwise one that fails is an error.
nb_execution_mode = os.environ.get("NOTEBOOKS", "force")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

# Types are in the words of docstrings.
autodoc_typehints = "none"
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False

html_theme = "pydata_sphinx_theme"
html_title = "chary"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["version-switcher", "theme-switcher"],
    "switcher": {"json_url": "_static/versions.json", "version_match": version},
    "check_switcher": False,
    "show_toc_level": 2,
    "footer_end": [],
}


def versions(app: Sphinx, error: Exception | None) -> None:
    """What the version switcher offers. A host of several versions puts a list of its own in place of it."""
    if error is None and app.builder.format == "html":
        known = [{"version": version, "url": os.environ.get("DOCS_URL", "/")}]
        (app.outdir / "_static" / "versions.json").write_text(json.dumps(known))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", versions)
