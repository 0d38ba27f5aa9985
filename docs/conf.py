"""How the pages become a site: `make docs`."""

from importlib.metadata import version as installed

project = "chary"
version = release = installed("chary")
author = copyright = "the authors of chary"

extensions = ["myst_parser", "sphinx_design"]
exclude_patterns = ["figures"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = "chary"
