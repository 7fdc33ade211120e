"""Walking the recorded graph: the engine, grad modes and custom functions."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import adjoint.autograd.hooks  # gives Tensor register_hook()
import adjoint.autograd.shown  # gives nodes what they show
from adjoint.autograd.backward import backward, grad
from adjoint.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from adjoint.core.elsewhere import place

if TYPE_CHECKING:
    from adjoint.autograd import anomaly_mode as anomaly_mode
    from adjoint.autograd import forward_ad as forward_ad
    from adjoint.autograd import function as function
    from adjoint.autograd import functional as functional
    from adjoint.autograd import graph as graph
    from adjoint.autograd.anomaly_mode import detect_anomaly as detect_anomaly
    from adjoint.autograd.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
    from adjoint.autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
    from adjoint.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
    from adjoint.autograd.function import Function as Function
    from adjoint.autograd.gradcheck import GradcheckError as GradcheckError
    from adjoint.autograd.gradcheck import gradcheck as gradcheck
    from adjoint.autograd.gradcheck import gradgradcheck as gradgradcheck
    from adjoint.autograd.memory import memory_report as memory_report
    from adjoint.autograd.saved_tensor import SavedTensor as SavedTensor
    from adjoint.autograd.steps import Step as Step
    from adjoint.autograd.steps import backward_steps as backward_steps
    from adjoint.autograd.steps import dependencies as dependencies
    from adjoint.autograd.variable import Variable as Variable
    from adjoint.autograd.why import why_no_grad as why_no_grad

__all__ = [
    "Function", "GradcheckError", "Step", "backward", "backward_steps", "dependencies", "enable_grad", "grad",
    "gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled", "is_multithreading_enabled", "no_grad",
    "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip

# Imported when they are first asked for, as in adjoint/__init__.py.
_LATER = {
    "Function": "adjoint.autograd.function:Function", "function": "adjoint.autograd.function",
    "forward_ad": "adjoint.autograd.forward_ad", "functional": "adjoint.autograd.functional",
    "graph": "adjoint.autograd.graph",
    "SavedTensor": "adjoint.autograd.saved_tensor:SavedTensor", "Step": "adjoint.autograd.steps:Step",
    "backward_steps": "adjoint.autograd.steps:backward_steps", "dependencies": "adjoint.autograd.steps:dependencies",
    "anomaly_mode": "adjoint.autograd.anomaly_mode",
    "detect_anomaly": "adjoint.autograd.anomaly_mode:detect_anomaly",
    "set_detect_anomaly": "adjoint.autograd.anomaly_mode:set_detect_anomaly",
    "is_anomaly_enabled": "adjoint.autograd.anomaly_mode:is_anomaly_enabled",
    "is_anomaly_check_nan_enabled": "adjoint.autograd.anomaly_mode:is_anomaly_check_nan_enabled",
    "GradcheckError": "adjoint.autograd.gradcheck:GradcheckError",
    "gradcheck": "adjoint.autograd.gradcheck:gradcheck", "gradgradcheck": "adjoint.autograd.gradcheck:gradgradcheck",
    "Variable": "adjoint.autograd.variable:Variable", "variable": "adjoint.autograd.variable",
    "_unsafe_preserve_version_counter": "adjoint.autograd.versions:_unsafe_preserve_version_counter",
    "_force_original_view_tracking": "adjoint.autograd.versions:_force_original_view_tracking",
    "is_view_replay_enabled": "adjoint.autograd.versions:is_view_replay_enabled",
    "memory_report": "adjoint.autograd.memory:memory_report", "why_no_grad": "adjoint.autograd.why:why_no_grad",
}  # fmt: skip


class _Package(ModuleType):
    """The package, in which `gradcheck` is the function also once the module of that name has been imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.gradcheck if name == "gradcheck" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    module, _, attribute = _LATER.get(name, "").partition(":")
    if not module:
        raise AttributeError(f"module 'adjoint.autograd' has no attribute {name!r}")
    found: Any = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})

place(__name__, {"profiler": "adjoint.profiler"})
