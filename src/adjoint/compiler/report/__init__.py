"""Reports on a compiled step: `explain()`, loops, memory, listings, a page.

Modules, in reading order:

- `explain`: `explain()`: the kernels and calls of a program in order, their source lines and costs, and why each
  begins.
- `memory_report`: The memory of a program: its values in the arena and besides it, and those saved for backward, by
  line.
- `source_listing`: The generated code to read: every kernel's LLVM assembly, and the Python entry that calls them.
- `memory_timeline`: The memory plan as a picture: one rectangle for each value in the arena, time to the right,
  addresses upwards.
- `loop_text`: The loops of a kernel as text: what is computed where, without the registers and tiles of its code.
- `advice`: Advice on a compiled step: what its calls spend time on besides kernels, where, and what to write instead.
- `step_reports`: Reports of a compiled step on the program that ran last: its graph, kernels, memory, code, costs.
- `example_arguments`: The arguments of the call for which a program was made, held weakly: with them its step can be
  called again.
- `kernel_clock`: The clock of a program: in place of its native calls, ones that note when each kernel began and
  ended, by thread.
- `kernel_times`: The times of a step's kernels and calls, measured in a copy of this process, in which alone anything
  changes.
- `profiled_call`: Calls of compiled steps while a profile runs: the program is the same, with a clock around each
  kernel.
- `drawn_graph`: Graphs of the compiler as the viewer draws them: equations as nodes, in boxes of their lines or of
  their kernels.
- `kernel_pane`: The kernels of a program as a pane of its page: what each takes, one call as a flame chart, and why
  each begins.
- `memory_pane`: The memory of a program as a pane of its page: what lives when and where, the peak, what is saved for
  backward.
- `pass_stages`: The graph of a step after each pass: the step is traced and planned once more, in a copy of this
  process.
- `process_copy`: A copy of this process, in which something is tried of which nothing is to remain: a fork that sends
  an answer.
- `step_page`: The page of a compiled step: its graph after each pass, kernels, memory and code beside the user's
  lines.
- `nested_boxes`: Boxes within boxes: the parts of a step, its modules, and runs of what is left, so that no box has
  too much in it.
- `step_summary`: The display of a compiled step in a notebook: programs, kernels and memory, where it is cut, why it
  was traced.
"""
