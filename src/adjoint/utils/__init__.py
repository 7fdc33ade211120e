"""Recomputation of activations, the counter of operations, the profiler, and the switch for deterministic results.

Modules, in reading order:

- `checkpoint_frames`: One checkpointed call: which values its ops would have kept, and how they come back when
  backward asks for them.
- `deterministic`: What `use_deterministic_algorithms` entails for memory that nobody wrote.
- `flop_counter`: `adjoint.utils.flop_counter`: how many floating point operations products, convolutions and
  attention take.
- `profiler`: The times of named blocks: one by one, summed by name, and as a table.
- `checkpoint_debug`: What a checkpointed function did, the first time and the second: one line for each op, to be set
  side by side.
- `checkpoint`: Less memory for more time: what a function computes on its way is not kept, but computed again in
  backward.
"""

from __future__ import annotations

from adjoint.utils import checkpoint as checkpoint
from adjoint.utils import deterministic as deterministic
