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
- `freed_graphs`: Remedies for graphs that a pass has freed or that need overwritten values: two passes, states
  carried on, writes.
"""

from adjoint.diagnosis.remedies.language import exchanged_names as exchanged_names  # isort: skip
from adjoint.diagnosis.remedies.trials import exchanged_arguments as exchanged_arguments  # isort: skip
from adjoint.diagnosis.remedies.language import loops as loops  # isort: skip
from adjoint.diagnosis.remedies.language import plain_values as plain_values  # isort: skip
from adjoint.diagnosis.remedies.language import sources_of_none as sources_of_none  # isort: skip
from adjoint.diagnosis.remedies.language import own_functions as own_functions  # isort: skip
from adjoint.diagnosis.remedies.language import dynamic_names as dynamic_names  # isort: skip
from adjoint.diagnosis.remedies.language import results as results  # isort: skip
from adjoint.diagnosis.remedies.language import overridden_methods as overridden_methods  # isort: skip
from adjoint.diagnosis.remedies.language import names as names  # isort: skip
from adjoint.diagnosis.remedies.language import messages as messages  # isort: skip
from adjoint.diagnosis.remedies import requirements as requirements  # isort: skip
from adjoint.diagnosis.remedies import functions as functions  # isort: skip
from adjoint.diagnosis.remedies.language import callables as callables  # isort: skip
from adjoint.diagnosis.remedies.shapes import batches as batches  # isort: skip
from adjoint.diagnosis.remedies.shapes import unpacked_values as unpacked_values  # isort: skip
from adjoint.diagnosis.remedies import training as training  # isort: skip  before the general remedies
from adjoint.diagnosis.remedies import objects as objects  # isort: skip
from adjoint.diagnosis.remedies.requirements import named_results as named_results  # isort: skip
from adjoint.diagnosis.remedies import layers as layers  # isort: skip
from adjoint.diagnosis.remedies.shapes import shortcuts as shortcuts  # isort: skip
from adjoint.diagnosis.remedies import classes as classes  # isort: skip
from adjoint.diagnosis.remedies import kinds as kinds  # isort: skip
from adjoint.diagnosis.remedies.language import python_numbers as python_numbers  # isort: skip
from adjoint.diagnosis.remedies import holders as holders  # isort: skip
from adjoint.diagnosis.remedies import data as data
from adjoint.diagnosis.remedies import freed_graphs as freed_graphs
from adjoint.diagnosis.remedies import gradients as gradients
from adjoint.diagnosis.remedies import losses as losses

from adjoint.diagnosis.remedies.shapes import target_shapes as target_shapes  # isort: skip
from adjoint.diagnosis.remedies.data import truths as truths

from adjoint.diagnosis.remedies.shapes import attention as attention  # isort: skip
from adjoint.diagnosis.remedies.shapes import indices as indices  # isort: skip
from adjoint.diagnosis.remedies.shapes import index_dimensions as index_dimensions  # isort: skip

from adjoint.diagnosis.remedies.shapes import conversions as conversions  # isort: skip
from adjoint.diagnosis.remedies.shapes import recurrent as recurrent  # isort: skip

from adjoint.diagnosis.remedies.language import missing_values as missing_values  # isort: skip
from adjoint.diagnosis.remedies import modules as modules
from adjoint.diagnosis.remedies import operations as operations

from adjoint.diagnosis.remedies.language import python_values as python_values  # isort: skip
from adjoint.diagnosis.remedies.language import unpacking as unpacking  # isort: skip
from adjoint.diagnosis.remedies.language import missing_keys as missing_keys  # isort: skip
from adjoint.diagnosis.remedies.shapes import size_origins as size_origins  # isort: skip
from adjoint.diagnosis.remedies.shapes import broadcasting as broadcasting  # isort: skip
from adjoint.diagnosis.remedies.shapes import lost_dimensions as lost_dimensions  # isort: skip
from adjoint.diagnosis.remedies.shapes import fitting as fitting  # isort: skip
from adjoint.diagnosis.remedies.shapes import products as products  # isort: skip
from adjoint.diagnosis.remedies.shapes import views as views  # isort: skip
from adjoint.diagnosis.remedies.shapes import joins as joins  # isort: skip
from adjoint.diagnosis.remedies import transforms as transforms
from adjoint.diagnosis.remedies import wording as wording

from adjoint.diagnosis.remedies.requirements import one_truth as one_truth  # isort: skip
from adjoint.diagnosis.remedies.language import conditions as conditions  # isort: skip
from adjoint.diagnosis.remedies.trials import flags as flags  # isort: skip
from adjoint.diagnosis.remedies.trials import options as options  # isort: skip  after those that know the kind of mistake
from adjoint.diagnosis.remedies.trials import origins as origins  # isort: skip
from adjoint.diagnosis.remedies.trials import changed_lines as changed_lines  # isort: skip
from adjoint.diagnosis.remedies.trials import settings as settings  # isort: skip
from adjoint.diagnosis.remedies.language import arguments as arguments  # isort: skip
from adjoint.diagnosis.remedies.language import own_attributes as own_attributes  # isort: skip
from adjoint.diagnosis.remedies.language import told_causes as told_causes  # isort: skip
from adjoint.diagnosis.remedies.registry import find_remedy as find_remedy
