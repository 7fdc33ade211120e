"""Remedies for data: values that make no tensor, datasets and loaders, files and devices.

Modules, in reading order:

- `loading`: Remedies for datasets and loaders: samples, samplers, lengths, processes, and what puts a batch together.
- `truths`: Remedies for binary losses: truths of another type or range than the probabilities, scores in their place.
- `values`: Remedies for values that make no tensor, for states, files and devices, and for values out of their range.
"""

from adjoint.diagnosis.remedies.data import loading as loading
from adjoint.diagnosis.remedies.data import values as values
