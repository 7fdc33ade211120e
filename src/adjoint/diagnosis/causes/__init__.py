"""Causes: the line to blame for an error, where it is not the line that raised it.

Modules, in reading order:

- `contexts`: Contexts of expressions: a frame that runs, or a function that has returned, with the call that ran it.
- `arguments`: Arguments of the user's functions: what the call of a function gives for a parameter, or leaves to its
  default.
- `assignments`: Statements that gave a name its value: the last that ran before, with a value of the kind that the
  name has.
- `attributes`: Attributes of objects: the statement, the argument or the field that gave an object what it holds.
- `cause`: The cause of an error: the line that is to blame, found from the frames and the sources when the error is
  raised.
- `computing`: Values of expressions of functions that have returned, computed again of copies, by the library's
  functions alone.
- `constructions`: The call that made an object: found by the names and attributes that lead to it from the frames
  that run.
- `numbers`: Numbers of a program: the constant, the entry, the argument or the default from which a size or a setting
  comes.
- `operand_history`: The history of a line's operands: the statements that made them, those of the user's functions
  too.
- `results`: Results of calls: what a function of the user's returns, and the samples of loaders and data sets.
- `sizes`: Sizes of tensors: the layer, the call or the operation that gave a dimension its size, several functions
  away.
- `statements`: Values that statements give to names: of assignments, loops, and what fills a list or a table.
- `steps`: Steps back from a value to the expression that gave it: through names, attributes, items, arguments and
  results.
- `searches`: Searches for the cause of an error, each for errors of a kind: what is to blame, and the line.
- `called_functions`: The user's function that a call runs.
- `held_values`: Values that frames, objects and modules hold for expressions, and those of a turn of a loop.
- `layer_settings`: Settings of layers that give tensors their sizes: the call that made a layer, and the number
  there.
"""

from adjoint.diagnosis.causes.cause import Cause as Cause
from adjoint.diagnosis.causes.cause import find_cause as find_cause
from adjoint.diagnosis.causes.computing import closing_program as closing_program
