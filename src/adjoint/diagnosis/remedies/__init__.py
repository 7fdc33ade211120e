"""Remedies: for each kind of error, what the user can write instead.

Modules, in reading order:

- `data`: Remedies for data: values that make no tensor, datasets and loaders, files and devices.
- `gradients`: Remedies for gradients: passes backward, custom functions and hooks, derivatives of functions.
- `losses`: Remedies for losses and lookups: targets of other types, shapes and ranges.
- `modules`: Remedies for modules and what trains them: states, results of several parts, normalisation, optimizers,
  files.
- `operations`: Remedies for single operations: indices, joins and splits, types, attention, vmap and derivatives of
  functions.
- `registry`: Registry of remedies, each a function of a failure that is found by the words of the error.
- `shapes`: Remedies for shapes that do not fit: layers, products, broadcasting, views, joins, indices.
- `training`: Remedies for what drives a training: closures and schedules, gradient scalers, checkpoints' parts,
  weights.
- `layers`: Remedies for what one layer gives and the next takes: flattened batches, shortcuts, skip connections,
  masks.
- `objects`: Remedies for objects that are no tensors where tensors belong: tuples, dicts, lists, methods, and single
  numbers.
- `transforms`: Remedies for what asks for equal sizes by name, and for tensors that are empty, single or of another
  order.
- `classes`: Remedies for classes of the user's: what `__init__` and `forward` lack, and classes and modules taken for
  values.
- `kinds`: Remedies for values of another kind than a call takes: lists, floats, strings, packed sequences, numbers.
- `wording`: Remedies by the wording of an error, after all others: what was wanted, what was given, and by which
  name.
- `functions`: Remedies for functions that are given: called too early, with another result than a transform or a
  loader takes.
- `requirements`: Remedies for what a function requires of its arguments, by the kind of requirement.
- `language`: Remedies for what Python itself refuses: names, calls, values, and None.
- `trials`: Remedies that were tried: other options, other numbers, and changed lines, with which the call runs.
- `holders`: Remedies for values that another object holds, or that come in pairs: wrapped data sets, zipped loaders,
  methods.
- `remedy_order`: The remedies in the order in which they are tried: what knows the kind of mistake comes before what
  is general.
"""

from adjoint.diagnosis.remedies.remedy_order import find_remedy as find_remedy
