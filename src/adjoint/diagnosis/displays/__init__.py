"""Displays of tensors and modules in notebooks.

Modules, in reading order:

- `module_display`: A module in a notebook: a tree that folds, with the parameters of each module, their shapes and
  bytes.
- `pictures`: Small pictures of arrays, within HTML: PNG images, heat maps, curves and histograms.
- `tensor_display`: A tensor in a notebook: its type and history, statistics, a picture, and a table of values.
- `training_display`: Displays of what trains a model: an optimizer's groups, a loader and a dataset, each in a line
  or a table.
- `value_display`: The display of a value in a notebook, by its class, and that of the doctor's report.
- `graph_display`: The recorded graph in a notebook: a node with what it saved and a tree of those before it.
"""
