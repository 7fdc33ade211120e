"""Searches for the cause of an error, each for errors of a kind: what is to blame, and the line.

Modules, in reading order:

- `crossed_names`: Causes of values in each other's place: arguments, fields and results in another order than their
  names.
- `cut_graphs`: Causes of results that no gradient reaches, and of those that keep a graph where an array is wanted.
- `dimensions`: Causes of tensors with a dimension too few or too many: the line that took it, or that gave it.
- `disagreements`: Causes of sizes that disagree: where each of the two comes from, and which of them is to blame.
- `dtypes`: Causes of numbers of another type than an operation takes: floats of 64 bits, truths, integers, texts.
- `emptiness`: Causes of empty lists: an iterator that was used up, modules in a plain list, an object that nothing
  was added to.
- `keys`: Causes of keys that a table has not.
- `kind_traces`: The way of a value back, as long as it is of a kind, and of numbers to what gave them their type.
- `kinds`: Causes of values of a wrong kind: where None, a text, a tuple or a list comes from.
- `names`: Causes of names and arguments that are not there: spelled otherwise, bound later, or not taken.
- `values`: Causes of values out of their range, and of targets of another shape than a loss takes.
- `unfit_settings`: Causes of sizes and settings that calls, views and saved states do not take: where they come from.
- `samples`: Causes of samples that a loader cannot put together: the line that gave one a part of another kind.
"""
