"""`Module`: parameters, state, hooks, and how modules are walked.

Modules, in reading order:

- `parameter`: Tensors that a module keeps: parameters, which are trained, and buffers, which are not.
- `module_state`: Attributes of a module, and the protocol by which its functions see them.
- `hooks`: Functions that users attach to a module, or to all modules, and the dictionaries that hold them.
- `backward_hooks`: Hooks on the gradients of a module: places in the graph, before and behind forward, which they all
  pass at once.
- `module_path`: Path of a module in its model, which traces and error messages show.
- `node_hooks`: Backward hooks that are not full: PyTorch's first ones, which see the node that made a module's
  output.
- `call_with_hooks`: A module's call where there are hooks: those before forward, forward, those after it, and those
  on gradients.
- `registration`: Names under which a module holds parameters, buffers and other modules, apart from its plain
  attributes.
- `state_dict`: A module's state as a flat dict of tensors under dotted names.
- `load_state_dict`: Loading a state dict into a module and all its parts.
- `to`: Bringing a module's floating tensors to another dtype.
- `traversal`: Walking a tree of modules, and finding parts of it by dotted names.
- `module`: The module: parameters, buffers and other modules under names, and a forward which calls functions.
- `from_function`: Modules made from functions: the settings of the function, kept as attributes, and a forward that
  passes them on.
- `uninitialized`: Tensors of modules whose shapes are not known yet, and how a module learns them from its first
  input.
- `module_docstring`: Docstrings of modules that derive from others: from a function's, and from a base class's.
"""
