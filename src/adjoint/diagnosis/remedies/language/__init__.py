"""Remedies for what Python itself refuses: names, calls, values, and None.

Modules, in reading order:

- `arguments`: Remedies for calls with other arguments than the function takes: too few, too many, one twice.
- `callables`: Remedies for what the library calls and is no function: results of calls, numbers, methods that values
  hide.
- `conditions`: Remedies for what Python refuses by the values: places past the end, empty divisors, texts,
  assertions, recursion.
- `missing_values`: Remedies for None where a value belongs: gradients that are not there, functions and methods that
  return nothing.
- `names`: Remedies for names: those without a value, those of pairs that a loop gives whole, attributes of other
  objects.
- `messages`: Remedies that the message itself names: a method to be called first, what a function gives in one
  process alone.
- `python_numbers`: Remedies for Python numbers where tensors belong: the `.item()` that made them, in this function
  or another.
- `missing_keys`: Remedies for keys that a dictionary, a `ModuleDict` or a checkpoint has not.
- `exchanged_names`: Remedies for values that stand in each other's place: arguments and results in another order than
  their names.
- `loops`: Remedies for loops and unpackings: numbers without enumerate, keys where pairs or values are meant, none at
  all.
- `plain_values`: Remedies for values of Python and NumPy of another kind than the line takes: tuples, generators,
  dicts, archives.
- `sources_of_none`: Remedies for None that a function has given: for a key that it did not find, for a case that it
  does not know.
- `results`: Remedies for results of calls: those that return nothing, and those of several parts that a call takes
  one by one.
- `overridden_methods`: Remedies for classes of the user's that derive from the library's: what their methods give and
  are called with.
- `own_functions`: Remedies for functions of the user's, and for parts asked for by a name made as it runs:
  `getattr(model, name)`.
- `own_attributes`: Remedies for attributes and fields of objects of the user's or of Python: settings, dataclasses,
  the environment.
- `told_causes`: Remedies for errors whose message tells the cause whole: for each, what to write instead.
- `unpacking`: Remedies for statements with more or fewer names than values.
- `keywords`: Remedies for keywords that a function does not know, and for classes and modules called with other
  inputs.
- `missing_attributes`: Remedies for attributes that a module, an optimizer or another object of the library has not.
"""
