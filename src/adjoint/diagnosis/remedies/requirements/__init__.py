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
