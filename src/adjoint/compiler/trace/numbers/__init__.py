"""Python numbers that differ from call to call: their arithmetic, the tensors made of them, the texts that show them.

Modules, in reading order:

- `number_tensors`: Tensors that a step makes of numbers which each call brings.
- `number_text`: Texts of numbers that each call computes: in the trace, markers and placeholders stand for the
  digits.
- `symbolic_number`: Python numbers that may differ from call to call: a step does arithmetic with them, and the
  program does it again.
"""
