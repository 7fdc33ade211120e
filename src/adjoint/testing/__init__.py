"""Tensors to test with, comparison with tolerances, and gradients held against finite differences.

Modules, in reading order:

- `comparison`: `adjoint.testing.comparison`: tensors to test with, and what tests say when two of them differ.
- `gradcheck`: Gradients held against finite differences.
"""

from adjoint.testing.comparison import assert_allclose, assert_close, make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
