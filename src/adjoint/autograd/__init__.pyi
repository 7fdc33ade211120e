"""Made by `python3 dev.py stubs` from __init__.py and compat/namespace.py: not to be edited."""

from adjoint.autograd import function as function
from adjoint.autograd import graph as graph
from adjoint.autograd.backward import backward as backward
from adjoint.autograd.backward import grad as grad
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
from adjoint.autograd.grad_mode import enable_grad as enable_grad
from adjoint.autograd.grad_mode import inference_mode as inference_mode
from adjoint.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from adjoint.autograd.grad_mode import is_multithreading_enabled as is_multithreading_enabled
from adjoint.autograd.grad_mode import no_grad as no_grad
from adjoint.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from adjoint.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
from adjoint.autograd.saved.saved_tensor import SavedTensor as SavedTensor
from adjoint.compat.stubs import autograd as variable
from adjoint.compat.stubs.autograd import Variable as Variable
from adjoint.compat.stubs.autograd import _force_original_view_tracking as _force_original_view_tracking
from adjoint.compat.stubs.autograd import _unsafe_preserve_version_counter as _unsafe_preserve_version_counter
from adjoint.compat.stubs.autograd import is_view_replay_enabled as is_view_replay_enabled
from adjoint.compat.stubs.private_functions import _disable_profiler as _disable_profiler
from adjoint.compat.stubs.private_functions import _profiler_enabled as _profiler_enabled
from adjoint.core.typing import Operand as Operand
from adjoint.testing.gradcheck.gradcheck import GradcheckError as GradcheckError
from adjoint.testing.gradcheck.gradcheck import gradcheck as gradcheck
from adjoint.testing.gradcheck.gradcheck import gradgradcheck as gradgradcheck
from adjoint.transforms.forward import forward_ad as forward_ad
from adjoint.transforms.functional import api as functional
from adjoint.utils import profiler as profiler
from adjoint.utils import profiler as profiler_util

__all__ = [
    "Function", "GradcheckError", "Operand", "SavedTensor", "Step", "Variable", "_disable_profiler",
    "_force_original_view_tracking", "_profiler_enabled", "_unsafe_preserve_version_counter", "anomaly_mode",
    "backward", "backward_steps", "dependencies", "detect_anomaly", "enable_grad", "forward_ad", "function",
    "functional", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled", "is_grad_enabled", "is_multithreading_enabled", "is_view_replay_enabled",
    "memory_report", "no_grad", "profiler", "profiler_util", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled", "variable", "why_no_grad"
]
