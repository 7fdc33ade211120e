"""Names for numbers given once or for each dimension, which programs annotate with."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor

_size_any_t = int | tuple[int, ...]
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_4_t = int | tuple[int, int, int, int]
_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_ratio_any_t = float | tuple[float, ...]
_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]
