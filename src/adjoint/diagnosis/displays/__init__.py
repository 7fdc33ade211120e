"""Displays of tensors and modules in notebooks.

Modules, in reading order:

- `module_display`: A module in a notebook: a tree that folds, with the parameters of each module, their shapes and
  bytes.
- `pictures`: Small pictures of arrays, within HTML: PNG images, heat maps, curves and histograms.
- `tensor_display`: A tensor in a notebook: its type and history, statistics, a picture, and a table of values.
"""
