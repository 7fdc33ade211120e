"""Values saved for backward: hooks that pack them, and what users see of them.

Modules, in reading order:

- `hooks`: Hooks that pack and unpack the tensors that nodes save for backward.
- `copy_on_write`: Writing into tensors that nodes have kept for backward: the values are copied just before they are
  lost.
- `saved_tensor`: One value that a node keeps for backward, as users see it: `grad_fn._raw_saved_self`.
- `saved_attributes`: The names under which PyTorch's nodes show what they keep: `grad_fn._saved_self`, `_saved_dim`,
  ….
"""
