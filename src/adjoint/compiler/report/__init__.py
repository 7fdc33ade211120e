"""What a compiled step tells: `explain()`, memory, listings, a page.

Modules, in reading order:

- `explain`: What became of each equation: kernels and calls in order, the lines they came from, what they cost, and
  why each begins where it does.
- `memory_report`: Where a program's values lie: in the arena and besides it, and what is saved for the backward pass,
  by which line.
- `source_listing`: The generated code to read: every kernel's LLVM assembly, and the Python entry that calls them.
- `memory_timeline`: The memory plan as a picture: one rectangle for each value in the arena, time to the right,
  addresses upwards.
- `html_page`: A program on one HTML page which opens offline: kernels, memory, source lines, equations, generated
  code.
- `loop_text`: The loops of a kernel as text: what is computed where, without the registers and tiles of its code.
"""
