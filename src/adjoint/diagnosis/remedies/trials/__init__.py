"""Remedies that were tried: other options, other numbers, and changed lines, with which the call runs.

Modules, in reading order:

- `changed_lines`: Remedies that were tried: the user's expression, changed in one place, is carried out on copies of
  its values.
- `origins`: Remedies that were tried at the line that made an operand: the user's line runs with what it makes then.
- `options`: Remedies for options that are texts: of those that the library's code names, the ones with which the line
  runs.
- `settings`: Remedies for settings out of their range, or that exclude each other: the nearest number with which the
  line runs.
- `flags`: Remedies for settings of a module that are true or false: the one with which the call runs when it is the
  other.
- `exchanged_arguments`: Remedies for arguments in each other's place, found by a trial: with both exchanged, the line
  that failed runs.
"""
