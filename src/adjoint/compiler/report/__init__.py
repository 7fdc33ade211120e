"""Reports on a compiled step: `explain()`, loops, memory, listings, a page.

Modules, in reading order:

- `explain`: `explain()`: the kernels and calls of a program in order, their source lines and costs, and why each
  begins.
- `memory_report`: The memory of a program: its values in the arena and besides it, and those saved for backward, by
  line.
- `source_listing`: The generated code to read: every kernel's LLVM assembly, and the Python entry that calls them.
- `memory_timeline`: The memory plan as a picture: one rectangle for each value in the arena, time to the right,
  addresses upwards.
- `html_page`: A program on one HTML page which opens offline: kernels, memory, source lines, equations, generated
  code.
- `loop_text`: The loops of a kernel as text: what is computed where, without the registers and tiles of its code.
- `advice`: Advice on a compiled step: what its calls spend time on besides kernels, where, and what to write instead.
- `step_reports`: Reports of a compiled step on the program that ran last: its graph, kernels, memory, code, costs.
"""
