"""The site: `make docs` writes it to build/docs/html.

Its source is the whole project, so that links between the README, pages, and
files of the repository are the same on the site and on a code host.
"""

import os
import pathlib
import sys

from keras_seqmech import __version__

DOCS = pathlib.Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS / "extensions")]

project = "keras_seqmech"
release = __version__
root_doc = "README"
include_patterns = ["*.md", "docs/**", "examples/README.md"]
exclude_patterns = [".*", "build", "runs", "tests", "docs/templates"]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "class_signatures",
    "local_assets",
    "markdown_docstrings",
    "mathml",
    "notebooks",
    "start_page",
]
# Of names in code, those of this package have to be documented.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!keras_seqmech\.).*")]

html_theme = "furo"
html_title = f"keras_seqmech {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_copyright = False
html_show_sourcelink = False
html_additional_pages = {"index": "index.html"}
templates_path = [str(DOCS / "templates")]

autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [
    ("Call arguments", "params_style"),
    "Input shape",
    "Output shape",
]
default_role = "py:obj"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "docs" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 900  # seconds a cell, on a busy machine
nb_merge_streams = True
nb_output_stderr = "remove"
# Where the kernels that run the tutorials find `examples`.
os.environ["PYTHONPATH"] = str(ROOT)
