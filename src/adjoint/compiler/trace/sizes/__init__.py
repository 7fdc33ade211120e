"""Sizes of arguments that differ from call to call: as symbols of one program, or as programs of their own.

- `argument_sizes`: the symbols of a trace, found anew in each call.
- `batch_sizes`: which sizes are worth a program of their own.
- `dynamic_sizes`: which dimensions become symbols, and the programs that serve them.

Modules, in reading order:

- `argument_sizes`: The sizes of arguments that differ from call to call: symbols of the step, found anew in each
  call.
- `batch_sizes`: Sizes of the arguments: which are worth a program of their own, and from which time that is paid.
- `dynamic_sizes`: The sizes of arguments that become symbols: those that differ from one call to another, as in
  torch.compile.
"""
