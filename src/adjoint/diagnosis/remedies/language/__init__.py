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
- `python_values`: Remedies for what Python itself refuses: names and keywords that are not there, calls, unpacking.
- `messages`: Remedies that the message itself names: a method to be called first, what a function gives in one
  process alone.
- `python_numbers`: Remedies for Python numbers where tensors belong: the `.item()` that made them, in this function
  or another.
- `missing_keys`: Remedies for keys that a dictionary, a `ModuleDict` or a checkpoint has not.
- `told_causes`: Remedies for errors whose message tells the cause whole: for each, what to write instead.
"""
