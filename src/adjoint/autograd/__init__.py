"""Walking the recorded graph: the engine, grad modes and custom functions.

Modules, in reading order:

- `engine`: The engine: one walk over the recorded graph, from a result back to the leaves.
- `grad_mode`: Grad modes: whether ops are recorded, for a block, a function, a generator, or from now on.
- `hooks`: Hooks on tensors: functions that see a gradient when it arrives.
- `saved`: Values saved for backward: hooks that pack them, and what users see of them.
- `function`: `Function`: ops that users write, with a forward and a backward of their own.
- `graph`: The recorded graph: its nodes and edges, and hooks on what it keeps and on several gradients.
- `backward`: `backward` and `grad`: the entries to the walk, and their checks.
- `debug`: Tools that look at a graph: anomaly mode, memory, single steps, missing gradients.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import adjoint.autograd.hooks  # gives Tensor register_hook()
import adjoint.autograd.saved.saved_attributes  # gives nodes what they show
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
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.autograd import function as function
    from adjoint.autograd import graph as graph
    from adjoint.autograd.debug import anomaly_mode as anomaly_mode
    from adjoint.autograd.debug.anomaly_mode import detect_anomaly as detect_anomaly
    from adjoint.autograd.debug.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
    from adjoint.autograd.debug.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
    from adjoint.autograd.debug.anomaly_mode import set_detect_anomaly as set_detect_anomaly
    from adjoint.autograd.debug.backward_steps import Step as Step
    from adjoint.autograd.debug.backward_steps import backward_steps as backward_steps
    from adjoint.autograd.debug.backward_steps import dependencies as dependencies
    from adjoint.autograd.debug.memory_report import memory_report as memory_report
    from adjoint.autograd.debug.why_no_grad import why_no_grad as why_no_grad
    from adjoint.autograd.function.function import Function as Function
    from adjoint.autograd.saved.saved_tensor import SavedTensor as SavedTensor

__all__ = ["Function", "GradcheckError", "Step", "backward", "backward_steps", "dependencies", "enable_grad", "grad"]
__all__ += ["gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled", "is_multithreading_enabled", "no_grad"]
__all__ += ["set_grad_enabled", "set_multithreading_enabled"]

# Imported when they are first asked for, as in adjoint/__init__.py.
_LAZY_NAMES = {
    "Function": "adjoint.autograd.function.function:Function",
    "SavedTensor": "adjoint.autograd.saved.saved_tensor:SavedTensor",
    "Step": "adjoint.autograd.debug.backward_steps:Step",
    "anomaly_mode": "adjoint.autograd.debug.anomaly_mode",
    "backward_steps": "adjoint.autograd.debug.backward_steps:backward_steps",
    "dependencies": "adjoint.autograd.debug.backward_steps:dependencies",
    "detect_anomaly": "adjoint.autograd.debug.anomaly_mode:detect_anomaly",
    "function": "adjoint.autograd.function",
    "graph": "adjoint.autograd.graph",
    "is_anomaly_check_nan_enabled": "adjoint.autograd.debug.anomaly_mode:is_anomaly_check_nan_enabled",
    "is_anomaly_enabled": "adjoint.autograd.debug.anomaly_mode:is_anomaly_enabled",
    "memory_report": "adjoint.autograd.debug.memory_report:memory_report",
    "set_detect_anomaly": "adjoint.autograd.debug.anomaly_mode:set_detect_anomaly",
    "why_no_grad": "adjoint.autograd.debug.why_no_grad:why_no_grad",
}


class _Package(ModuleType):
    """The package, in which `gradcheck` is the function also once the module of that name has been imported."""

    def __setattr__(self, name: str, value: Operand) -> None:
        super().__setattr__(name, value.gradcheck if name == "gradcheck" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    module, _, attribute = _LAZY_NAMES.get(name, "").partition(":")
    if not module:
        from adjoint.core.runtime.similar_names import missing_name_error

        raise missing_name_error("adjoint.autograd", name, __dir__)
    found: Any = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_NAMES})
