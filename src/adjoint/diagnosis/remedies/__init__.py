"""Remedies: for each kind of error, what the user can write instead.

Modules, in reading order:

- `data`: Remedies for data: values that make no tensor, datasets and loaders, files and devices.
- `gradients`: Remedies for passes backward: losses without a graph, graphs that are gone, values overwritten, wrong
  gradients.
- `losses`: Remedies for losses and lookups: targets of other types, shapes and ranges.
- `modules`: Remedies for modules and what trains them: states, recurrent and attention layers, optimizers, batches,
  files.
- `operations`: Remedies for single operations: indices, joins and splits, types, attention, vmap and derivatives of
  functions.
- `python_values`: Remedies for what Python itself refuses: None, names and keywords that are not there, calls,
  unpacking.
- `registry`: Registry of remedies, each a function of a failure that is found by the words of the error.
- `shapes`: Remedies for shapes that do not fit: layers, products, broadcasting, views, joins, indices.
- `training`: Remedies for what drives a training: closures and schedules, gradient scalers, checkpoints' parts,
  weights.
"""

from adjoint.diagnosis.remedies import training as training  # isort: skip  before the general remedies
from adjoint.diagnosis.remedies import data as data
from adjoint.diagnosis.remedies import gradients as gradients
from adjoint.diagnosis.remedies import losses as losses
from adjoint.diagnosis.remedies import modules as modules
from adjoint.diagnosis.remedies import operations as operations
from adjoint.diagnosis.remedies import python_values as python_values
from adjoint.diagnosis.remedies import shapes as shapes
from adjoint.diagnosis.remedies.registry import find_remedy as find_remedy
