"""Settings of the site that `python3 dev.py docs` builds, for Sphinx: Markdown pages by MyST, the theme Furo.

Pages of docs/tutorials and docs/guides have `{code-cell}` blocks, which MyST-NB runs while it builds the site: what
they print, their figures and what notebooks show of a value appear below their cell, and a cell that fails is an error.
"""

project = "Adjoint"
author = "The Adjoint authors"
html_title = "Adjoint"
extensions = ["myst_nb"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # so that pages can link to each other's headings, as they do on GitHub
nb_execution_mode = "force"  # never from an older run
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 120  # seconds for a cell
nb_merge_streams = True
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["cells.js"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses on the file system
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 100
nitpicky = False  # types of signatures are words for the reader; links between pages are checked without this
