"""Recomputation of activations, the counter of operations, the profiler, and the switch for deterministic results.

Modules, in reading order:

- `checkpoint_frames`: Frames of checkpointed calls: slots in place of saved values, and the recomputation that fills
  them in backward.
- `deterministic`: `torch.utils.deterministic`: whether deterministic mode fills uninitialized memory.
- `flop_counter`: `adjoint.utils.flop_counter`: a counter of floating point operations of products, convolutions and
  attention.
- `profiler`: `adjoint.profiler`: times of ops, of their backward, of compiled steps kernel by kernel, and of named
  blocks.
- `checkpoint_debug`: Log of the ops of a checkpointed function in both calls, for comparison.
- `checkpoint`: Checkpointing: backward computes the intermediate values of a function again, instead of keeping them.
- `checkpoint_block`: Checkpoints in a compiled step: the program computes values again, and what else the function
  does happens twice.
- `tensorboard`: `adjoint.utils.tensorboard`: PyTorch's writer of TensorBoard's event files.
- `profile_events`: The events of a profile: ops, backward nodes, blocks, compiled steps and kernels, with their times
  and lines.
- `profile_observer`: The observer of a profile: the value of a thread's `mode.anomaly_detector` while ops are timed.
- `trace_file`: The file of a profile in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.
"""

from __future__ import annotations

from adjoint.utils import checkpoint as checkpoint
from adjoint.utils import deterministic as deterministic
