"""Remedies for shapes that do not fit: layers, products, broadcasting, views, joins, indices.

Modules, in reading order:

- `fitting`: Remedies for shapes that do not fit: layers, products, broadcasting, views, joins, indices.
- `broadcasting`: Remedies for operands that do not broadcast: masks, tables that are longer or shorter, results of
  two layers.
"""
