"""Routines of normalisation.

Modules, in reading order:

- `normalization`: Normalisation of rows to mean 0 and variance 1, and its gradients.
- `channel_norms`: Normalisation of channels over a batch, and of groups of channels, with all gradients from one
  pass.
- `running_statistics`: Batch normalisation by running statistics, in one pass, and the step of these statistics
  towards those of a batch.
"""
