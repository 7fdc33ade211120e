"""The state of a thread and of the process: modes, threads, forks, imports, and small tools.

Modules, in reading order:

- `fork_safety`: Locks across a fork: the new process has the locks of other threads, which nobody there releases.
- `gc_pause`: A pause of Python's garbage collector while many objects are made of which none is garbage.
- `html`: HTML of tables, and the frame of what a notebook shows, which takes the colours of the page that it is shown
  on.
- `libm`: Arithmetic with the bits of compiled code: the fused multiply-add.
- `package_name`: The package's name in the names of its classes: `adjoint`, or `torch` while it runs programs written
  for that.
- `slot`: Slots for calls upward: a lower layer calls a slot that a higher layer fills.
- `pytree`: Pytrees: tuples, lists, dicts, named tuples and dataclasses of leaves.
- `text_table`: Text for people: rows whose columns stand below one another, and numbers of things.
- `deterministic`: Deterministic mode: an error where results may depend on order, and a fill value in uninitialised
  memory.
- `lazy_import`: Lazy names of a package (PEP 562): a module is imported when one of its names is first read.
- `mode`: The calling thread's modes: whether ops are recorded, and which interpreter receives them.
- `threads`: The number of threads that this library may use, and how NumPy's BLAS is held to one.
- `compile_slot`: The compiler for those below it: a module compiles its own calls, and a program's runner its
  training steps.
- `interpreter`: The interpreter of a thread: it receives op calls in place of NumPy.
- `signal_handlers`: Signal handlers that interrupt the library: they wait where it is half-way, or run in another
  way.
- `launcher_variables`: Environment variables by which launchers tell a process its rank: PyTorch's names are set from
  those of others.
- `explanation_slot`: The slot of what explains errors: a layer above finds the user's names and lines, and says what
  to do.
- `exchange_log`: The exchanges of one call of a compiled step: they take place once, even where the call begins
  again.
- `notebook`: Displays in notebooks: the slot of what makes them.
- `similar_names`: Names like one that is not there: those of other libraries, other spellings, and names of another
  module.
"""
