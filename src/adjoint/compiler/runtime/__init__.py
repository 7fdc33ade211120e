"""What runs a program's kernels: the entry into native code, and the threads that share their tiles.

Modules, in reading order:

- `cpython_layout`: Where CPython and NumPy keep what compiled code looks at, found out on the interpreter that runs
  it.
- `result_buffers`: Memory of large results, used again when nobody holds it: new memory costs a fault for each page.
- `thread_pool`: The threads of this process that compute tiles: nobody waits for one that has taken none.
- `native_entry`: The entry into native code: one call binds the arrays that change and runs a list of kernels and
  checks.
- `object_checks_ir`: The native function that compares Python objects with what they were, and a function for each
  kind of comparison.
- `object_checks`: Looking at Python objects from native code: many comparisons of pointers in one call, a few ns
  each.
- `write_marks`: What a call leaves on Python objects that its kernels wrote: when they were written, and how often.
- `guard_lowering`: From the facts on which a program relies to looks at the objects that tell them: what Python need
  not ask again.
- `guard_checks`: All that a program checks at each call, as looks: its arguments, its guards, the tensors it
  captured.
- `native_function`: Native functions that Python calls as its own: compiled on first use, and there until the process
  ends.
"""
