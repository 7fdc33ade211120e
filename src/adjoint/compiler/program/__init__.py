"""The compiled step: its buffers, its entry function, its backward node.

Modules, in reading order:

- `backward_node`: The node of what a compiled step returns: its backward half, compiled when it is first needed.
- `buffer_binding`: Tying a program's values to memory: arguments, captured state, settings, results, gradients, and
  the arena.
- `entry_codegen`: The function that each call of a program runs: flat Python, written for it.
- `program`: A compiled step, bound to memory: what to check, what to run, where the results go.
- `result_codegen`: The end of the function that each call of a program runs: the tensors that it hands out.
- `check_codegen`: The first part of a program's entry function: the comparison of a call with what was traced.
- `effect_codegen`: Python source of what a step did to Python objects: assignments, where the place is one, else
  calls.
- `placed_gradients`: The gradients that a program places into `.grad`, and new memory for those that somebody keeps.
- `recorded_history`: The nodes that lead to the results of a step, kept so that each call can have them with its own
  values.
- `export`: Compiled steps that leave this process: WebAssembly modules, and libraries for programs in C.
- `eager_step`: A step in the guise of its function, and the step that runs eagerly because llvmlite, which compiles,
  is missing.
- `kernel_table`: The tables that kernels read: where their arguments lie, their numbers, and the sizes of the call.
- `tree_codegen`: Arguments taken out of their containers, and results put into theirs, by code written for one
  structure.
- `outlined_calls`: Calls of a compiled function that has a loop which grows: Python runs the loop, and its body is
  compiled apart.
- `arena_spans`: The values that lie in a program's arena: how long each needs memory, and which of them share a
  place.
"""
