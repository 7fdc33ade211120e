"""Remedies for what a function requires of its arguments, by the kind of requirement.

Modules, in reading order:

- `advice`: Remedies for errors whose message tells the cause whole: for each, what to write instead, in the names of
  the line.
- `value_ranges`: Remedies for values that a function cannot use: bounds in the wrong order, NaN, sums of 0, numbers
  too large.
- `dtypes`: Remedies for types of numbers that a function does not compute with: masks, complex and real numbers,
  layouts.
- `dimension_counts`: Remedies for tensors of another number of dimensions, or of other sizes, than a function is
  defined for.
- `made_sizes`: Remedies for sizes that a line above has written: short tables, windows past an end, lists with
  tensors, lengths.
- `left_out`: Remedies for what a line leaves out: the dimension of a reduction, a loop over indices, the names of
  layers.
- `near_misses`: Remedies for lines that are nearly right: a class for its instance, one dimension too many, widths
  paired wrongly.
- `sparse_layouts`: Remedies for sparse tensors: functions that take dense ones, both kinds in one call, and results
  that are dense.
- `module_parts`: Remedies for parts of modules: functions where modules belong, names that are no texts,
  parametrizations, pruning.
- `checkpoint_files`: Remedies for files: damaged ones, those that other programs wrote, folders, text mode, values
  that no file keeps.
- `function_transforms`: Remedies for derivatives of functions: inputs and directions of one structure, dual levels,
  stacks of models.
- `derivatives`: Remedies for derivatives that a function or a distribution has not, and for NaN that a pass has
  found.
- `training_calls`: Remedies for what drives a training: optimizers, scalers, autocast, data sets, averages, logs.
- `one_truth`: Remedies for decisions by several elements: what the statement around them does says which one answer
  is meant.
- `named_results`: Remedies for results of several parts by name: of max, sort and topk, and of load_state_dict.
"""

from adjoint.diagnosis.remedies.requirements import advice as advice
from adjoint.diagnosis.remedies.requirements import checkpoint_files as checkpoint_files
from adjoint.diagnosis.remedies.requirements import derivatives as derivatives
from adjoint.diagnosis.remedies.requirements import dimension_counts as dimension_counts
from adjoint.diagnosis.remedies.requirements import dtypes as dtypes
from adjoint.diagnosis.remedies.requirements import function_transforms as function_transforms
from adjoint.diagnosis.remedies.requirements import left_out as left_out
from adjoint.diagnosis.remedies.requirements import made_sizes as made_sizes
from adjoint.diagnosis.remedies.requirements import module_parts as module_parts
from adjoint.diagnosis.remedies.requirements import near_misses as near_misses
from adjoint.diagnosis.remedies.requirements import sparse_layouts as sparse_layouts
from adjoint.diagnosis.remedies.requirements import training_calls as training_calls
from adjoint.diagnosis.remedies.requirements import value_ranges as value_ranges
