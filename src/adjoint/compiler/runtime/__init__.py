"""The native runtime: the entry into compiled code, the threads that share its tiles, the checks before it.

Modules, in reading order:

- `cpython_layout`: The memory layout of CPython's and NumPy's objects, found out on the interpreter that runs.
- `result_buffers`: Memory of large results, used again when nobody holds it: new memory costs a fault for each page.
- `thread_pool`: The threads of this process that compute tiles: nobody waits for one that has taken none.
- `native_entry`: The entry into native code: one call binds the arrays that change and runs a list of kernels and
  checks.
- `object_checks_ir`: The native function that compares Python objects with what they were, and a function for each
  kind of comparison.
- `object_checks`: Pointer checks of Python objects in native code: many comparisons in one call, a few ns each.
- `write_marks`: The marks of a call on Python objects that its kernels wrote: when they were written, and how often.
- `guard_lowering`: The lowering of guards to pointer checks at the objects that decide them, so that Python need not
  ask again.
- `guard_checks`: The checks of a program at each call, in native code: its arguments, its guards, the tensors it
  captured.
- `native_function`: Native functions that Python calls as its own: compiled on first use, and there until the process
  ends.
- `new_tensors`: The tensors that a call hands out, made whole: type, history, writes counted, memory shared with
  others.
- `call_turn`: Turns: a compiled function runs one call at a time, and a step is traced while no other call runs.
- `gradient_slots`: The gradients that a program puts into `.grad`: its own tensors, used again from call to call
  while nobody keeps one.
- `observer_self_test`: A trial of the frame observer on a Python that no version of this library was tested with.
- `system_threads`: The system's threads, as the pool asks for them: to start one, to sleep on a word and be woken, to
  read a clock.
"""
