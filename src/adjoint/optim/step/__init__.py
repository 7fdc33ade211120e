"""The base of optimizers: groups, hyperparameters, state, and the fused update.

Modules, in reading order:

- `hooks`: Hooks of optimizers: functions called before and after a step, and around saving and loading the state.
- `param_groups`: Parameter groups: parameters with their options.
- `hyperparameters`: Declared hyperparameters of optimizers: their checks, and their values in a step.
- `state_dict`: State dicts of optimizers in PyTorch's layout, with numbers for parameters: packed and unpacked.
- `optimizer`: Base class of optimizers: parameter groups with options, state for each parameter, and a step.
- `update_rule`: Parts of update rules: a parameter's state, moving averages, penalties, and the fused in-place
  update.
"""
