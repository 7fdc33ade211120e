"""Names of types that programs annotate with: `adjoint.types`, `adjoint.nn.common_types`, `adjoint.jit.annotations`."""

from __future__ import annotations

import builtins
import os
import typing
from collections.abc import Sequence
from typing import TypeVar

from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import dtype
from adjoint.core.random.generator import Generator as _Generator
from adjoint.core.tensor.memory_format import layout
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.typed_storage import UntypedStorage as Storage

__all__ = ["Device", "FileLike", "Number", "Storage"]

# adjoint.types
Number = builtins.int | builtins.float | builtins.bool
Device = device | str | int | None
FileLike = str | os.PathLike[str] | typing.Any
Generator = _Generator
_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype, _device, _layout, _size = dtype, device, layout, Size | list[int] | tuple[int, ...]
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex

# adjoint.nn.common_types: one number for all dimensions, or one for each
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

# adjoint.jit.annotations
_T = TypeVar("_T")
Any, Dict, List, Optional, Tuple, Union = (
    getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple", "Union")
)


class BroadcastingList(list[_T]):
    """List, or one value that stands for a list of equal ones."""


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList
