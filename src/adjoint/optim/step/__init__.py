"""The base of optimizers: groups, hyperparameters, state, and the fused update.

Modules, in reading order:

- `hooks`: What users attach to optimizers: functions called before and after a step, or the state's saving and
  loading.
- `param_groups`: Parameter groups: parameters, and the options that hold for them.
- `hyperparameters`: Declared hyperparameters of optimizers: their checks, and their values in a step.
- `per_parameter_state`: What an optimizer keeps for each parameter, made on the first step that changes it.
- `state_dict`: An optimizer's state as plain data, in PyTorch's layout, in which parameters are numbers: out and in
  again.
- `fused_update`: Running means, from which optimizers take what the gradients were of late.
- `optimizer`: What every optimizer is: groups of parameters with options, state for each parameter, and a step.
"""
