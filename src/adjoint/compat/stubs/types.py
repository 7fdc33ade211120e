"""`adjoint.types`: names of types for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any

from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import dtype
from adjoint.core.random.generator import Generator as _Generator
from adjoint.core.tensor.memory_format import layout
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.typed_storage import UntypedStorage as Storage

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number = builtins.int | builtins.float | builtins.bool
Device = device | str | int | None
FileLike = str | os.PathLike[str] | Any
_TensorOrTensors = Tensor | Sequence[Tensor]
_dtype, _device, _layout, _size = dtype, device, layout, Size | list[int] | tuple[int, ...]
Generator = _Generator
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
