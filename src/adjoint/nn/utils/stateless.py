"""Calls of a module with other parameters than its own, under the name of old."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

from adjoint.nn.module.module import Module
from adjoint.transforms import functional_call as transform

__all__ = ["functional_call"]
_functional_call = transform.functional_call


def functional_call(
    module: Module,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: Any = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `func.functional_call` by its old name, with a warning."""
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use "
        "torch.func.functional_call instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return transform.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _reparametrize_module(
    module: Module, parameters_and_buffers: Any, tie_weights: bool = False, strict: bool = False
) -> AbstractContextManager[None]:
    return transform.reparametrize_module(module, parameters_and_buffers, tie_weights, strict)
