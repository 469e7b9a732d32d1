"""Configuration of the documentation site, which `make docs` builds into docs/_build. The build needs no network."""

import shutil
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NOTEBOOKS = HERE / "notebooks"

project = "SwiftRL"
author = "The SwiftRL contributors"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
default_role = "code"  # docstrings write `name` for code

# Pages are Markdown. Notebooks are committed without outputs, and shown as they are.
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"

# A module's page is made from the package as it is. What is optional need not be installed for that.
autodoc_mock_imports = ["cupy", "cupyx", "dask", "dask_jobqueue", "distributed", "dpu", "minari", "selenium"]
autodoc_default_options = {"members": True, "ignore-module-all": True, "member-order": "bysource"}
autodoc_typehints = "none"  # numpydoc's Parameters have them
autosummary_generate = True
autosummary_ignore_module_all = True
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "SwiftRL"
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False


def copy_notebooks() -> None:
    """Copy the notebooks below docs/, since Sphinx reads only what lies there."""
    NOTEBOOKS.mkdir(exist_ok=True)
    sources = {path.name: path for path in (ROOT / "notebooks").glob("*.ipynb")}
    for copy in NOTEBOOKS.glob("*.ipynb"):
        if copy.name not in sources:
            copy.unlink()
    for name, path in sources.items():
        copy = NOTEBOOKS / name
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            shutil.copyfile(path, copy)


copy_notebooks()
shutil.rmtree(HERE / "generated", ignore_errors=True)  # pages of modules that were renamed would stay
