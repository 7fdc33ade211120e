"""Pictures of what runs: the graphs of tensors and models.

Modules, in reading order:

- `backward_frames`: Frames of a backward pass for the viewer's slider: which node runs, what arrives, what is added,
  what is freed.
- `boxes`: Boxes of a drawing: modules, checkpointed calls, functions, and the iterations of loops, so that all of it
  folds.
- `graph_contents`: Contents of a recorded graph: its nodes with what they keep, and the edges between them, in the
  viewer's words.
- `module_calls`: Modules of nodes: exactly, where the model runs under hooks.
- `user_names`: The user's names for tensors and modules: those of the variables of the frames that called.
- `visualize`: `ad.visualize`: the graph of tensors, of a model's call, or a compiled step, as a page in a browser or
  a notebook.
- `graph_document`: The documents of graphs: of tensors that exist, and of a model that is called under hooks.
- `step_display`: Steps of a backward pass in a notebook: all of them as a page with a slider, or one as a table.
- `gradient_calls`: Calls that have recorded a gradient: their nodes are of no module, though they take its
  parameters.
"""
