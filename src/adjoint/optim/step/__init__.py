"""The base of optimizers: groups, hyperparameters, state, and the fused update.

Modules, in reading order:

- `hooks`: Hooks of optimizers: functions called before and after a step, and around saving and loading the state.
- `param_groups`: Parameter groups: parameters with their options.
- `hyperparameters`: Declared hyperparameters of optimizers: their checks, and their values in a step.
- `per_parameter_state`: State of a parameter in an optimizer, made on the first step that changes the parameter.
- `state_dict`: State dicts of optimizers in PyTorch's layout, with numbers for parameters: packed and unpacked.
- `fused_update`: Fused in-place update of one parameter, and the parts that the rules of optimizers share.
- `optimizer`: Base class of optimizers: parameter groups with options, state for each parameter, and a step.
"""
