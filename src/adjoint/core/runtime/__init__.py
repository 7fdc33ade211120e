"""The state of a thread and of the process: modes, threads, forks, imports, and small tools.

Modules, in reading order:

- `fork_safety`: A fork while other threads are at work: the new process has their locks, and nobody there lets go of
  them.
- `gc_pause`: Python's garbage collector, told to wait while many objects are made and none of them is garbage.
- `html`: One HTML page that needs nothing else: no script, no font, no picture from elsewhere.
- `libm`: Arithmetic with the bits of compiled code: the fused multiply-add, and the C library's functions per
  element.
- `package_name`: The package's name in what its objects say of themselves: adjoint's own, or PyTorch's where it
  stands in for that.
- `slot`: Calls upward: a slot below is filled with a function from above, which knows how to do what the slot is for.
- `pytree`: Arguments and results as trees: tuples, lists, dicts, named tuples and dataclasses of leaves.
- `text_table`: Rows of cells as text whose columns stand below one another.
- `deterministic`: What programs ask for where results may differ from run to run: a complaint, and memory that shows
  it is unwritten.
- `lazy_import`: Names of a package whose modules are imported when a name is first asked for (PEP 562): programs
  start sooner.
- `mode`: What differs from thread to thread: whether ops are recorded, and who traces them.
- `threads`: How many threads a compiled program may use at once.
- `compile_slot`: `adjoint.compile` for those below it: a module compiles its own calls.
- `interpreter`: The interpreter of a thread: it receives op calls in place of NumPy.
"""
