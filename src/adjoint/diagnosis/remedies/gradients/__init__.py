"""Remedies for gradients: passes backward, custom functions and hooks, derivatives of functions.

Modules, in reading order:

- `custom_functions`: Remedies for custom functions and hooks: the gradients that they return, and what they save for
  backward.
- `derivatives`: Remedies for derivatives: of outputs by tensors, and of functions that a transform takes.
- `passes`: Remedies for passes backward: losses without a graph, graphs that are gone, values overwritten, wrong
  gradients.
- `freed_graphs`: Remedies for graphs that a pass has freed or that need overwritten values: two passes, states
  carried on, writes.
"""
