"""Recomputation of activations, the counter of operations, the profiler, and the switch for deterministic results.

Modules, in reading order:

- `checkpoint_frames`: Frames of checkpointed calls: slots in place of saved values, and the recomputation that fills
  them in backward.
- `deterministic`: `torch.utils.deterministic`: whether deterministic mode fills uninitialized memory.
- `flop_counter`: `adjoint.utils.flop_counter`: a counter of floating point operations of products, convolutions and
  attention.
- `profiler`: `adjoint.profiler`: times of named blocks, one by one, summed by name, and as a table.
- `checkpoint_debug`: Log of the ops of a checkpointed function in both calls, for comparison.
- `checkpoint`: Checkpointing: backward computes the intermediate values of a function again, instead of keeping them.
- `checkpoint_block`: Checkpoints in a compiled step: the program computes values again, and what else the function
  does happens twice.
- `tensorboard`: `adjoint.utils.tensorboard`: PyTorch's writer of TensorBoard's event files.
"""

from __future__ import annotations

from adjoint.utils import checkpoint as checkpoint
from adjoint.utils import deterministic as deterministic
