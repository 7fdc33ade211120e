"""Remedies for data: values that make no tensor, datasets and loaders, files and devices.

Modules, in reading order:

- `loading`: Remedies for datasets and loaders: samples, samplers, lengths, processes, and what puts a batch together.
- `ragged_samples`: Remedies for samples of a loader that make no batch, since they have other lengths: a `collate_fn`
  that pads them.
- `truths`: Remedies for binary losses: truths of another type or range than the probabilities, scores in their place.
- `values`: Remedies for values that make no tensor, for states, files and devices, and for values out of their range.
"""
