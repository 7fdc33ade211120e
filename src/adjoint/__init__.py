"""Adjoint: reverse-mode automatic differentiation on NumPy, with PyTorch's words, and a compiler for whole training steps."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import adjoint.ops.operators  # noqa: F401  gives Tensor its operators
from adjoint import autograd as autograd
from adjoint.autograd.backward import backward as _backward  # noqa: F401  gives Tensor its backward()
from adjoint.autograd.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from adjoint.core.device import device
from adjoint.core.dtype import (
    bool_ as bool,
)
from adjoint.core.dtype import (
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    result_type,
    set_default_dtype,
    uint8,
)
from adjoint.core.size import Size
from adjoint.core.tensor import Tensor
from adjoint.functions import conversion as _conversion  # noqa: F401  gives Tensor its conversions
from adjoint.functions import index as _index  # noqa: F401  gives Tensor its brackets
from adjoint.functions.activation import *  # noqa: F403
from adjoint.functions.convolution import *  # noqa: F403
from adjoint.functions.creation import *  # noqa: F403
from adjoint.functions.einsum import *  # noqa: F403
from adjoint.functions.gather import *  # noqa: F403
from adjoint.functions.joining import *  # noqa: F403
from adjoint.functions.linear import *  # noqa: F403
from adjoint.functions.normalization import *  # noqa: F403
from adjoint.functions.pointwise import *  # noqa: F403
from adjoint.functions.pooling import *  # noqa: F403
from adjoint.functions.random import *  # noqa: F403
from adjoint.functions.reduce import *  # noqa: F403
from adjoint.functions.shape import *  # noqa: F403

if TYPE_CHECKING:
    from adjoint import data as data
    from adjoint import nn as nn
    from adjoint import optim as optim
    from adjoint.serialization.checkpoint import load as load
    from adjoint.serialization.checkpoint import save as save

__version__ = "0.1.0"

# Imported when they are first asked for: a program that only differentiates starts without them.
_LATER = {
    "data": "adjoint.data", "nn": "adjoint.nn", "optim": "adjoint.optim",
    "load": "adjoint.serialization.checkpoint:load", "save": "adjoint.serialization.checkpoint:save",
}  # fmt: skip

float = float32
double = float64
half = float16
short = int16
int = int32
long = int64


def __getattr__(name: str) -> Any:
    module, _, attribute = _LATER.get(name, "").partition(":")
    if not module:
        raise AttributeError(f"module 'adjoint' has no attribute {name!r}")
    found: Any = import_module(module)
    found = getattr(found, attribute) if attribute else found
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def compile(function: Any = None, **options: Any) -> Any:
    """`function`, a whole training or inference step, as native code: compiled on its first call for each signature.

    Usable as a decorator. Without llvmlite it warns once, and runs the function eagerly. See docs/compile.md.
    """
    from adjoint.compiler.compile import compile as implementation

    return implementation(function, **options)
