"""Adjoint: automatic differentiation on NumPy, with PyTorch's words, and a compiler for whole training steps."""

from __future__ import annotations

from importlib import import_module
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING, Any

from adjoint.core.autocast import autocast as autocast
from adjoint.core.autocast import clear_autocast_cache as clear_autocast_cache
from adjoint.core.autocast import get_autocast_dtype as get_autocast_dtype
from adjoint.core.autocast import is_autocast_cache_enabled as is_autocast_cache_enabled
from adjoint.core.autocast import is_autocast_enabled as is_autocast_enabled
from adjoint.core.autocast import set_autocast_cache_enabled as set_autocast_cache_enabled
from adjoint.core.autocast import set_autocast_dtype as set_autocast_dtype
from adjoint.core.autocast import set_autocast_enabled as set_autocast_enabled
from adjoint.core.collector import uncollected as _uncollected
from adjoint.core.device import device as device
from adjoint.core.dtype import bfloat16 as bfloat16
from adjoint.core.dtype import bool_ as bool
from adjoint.core.dtype import complex64 as complex64
from adjoint.core.dtype import complex128 as complex128
from adjoint.core.dtype import dtype as dtype
from adjoint.core.dtype import float16 as float16
from adjoint.core.dtype import float32 as float32
from adjoint.core.dtype import float64 as float64
from adjoint.core.dtype import get_default_dtype as get_default_dtype
from adjoint.core.dtype import int8 as int8
from adjoint.core.dtype import int16 as int16
from adjoint.core.dtype import int32 as int32
from adjoint.core.dtype import int64 as int64
from adjoint.core.dtype import promote_types as promote_types
from adjoint.core.dtype import result_type as result_type
from adjoint.core.dtype import set_default_dtype as set_default_dtype
from adjoint.core.dtype import uint8 as uint8
from adjoint.core.dtype import uint16 as uint16
from adjoint.core.dtype import uint32 as uint32
from adjoint.core.dtype import uint64 as uint64
from adjoint.core.layout import channels_last as channels_last
from adjoint.core.layout import channels_last_3d as channels_last_3d
from adjoint.core.layout import contiguous_format as contiguous_format
from adjoint.core.layout import contiguous_format as legacy_contiguous_format
from adjoint.core.layout import layout as layout
from adjoint.core.layout import memory_format as memory_format
from adjoint.core.layout import preserve_format as preserve_format
from adjoint.core.layout import strided as strided
from adjoint.core.native import source as _source
from adjoint.core.precision import get_float32_matmul_precision as get_float32_matmul_precision
from adjoint.core.precision import set_float32_matmul_precision as set_float32_matmul_precision
from adjoint.core.printing import set_printoptions as set_printoptions
from adjoint.core.protocols import answers as _answers
from adjoint.core.size import Size as Size
from adjoint.core.tensor import Tensor as Tensor

with _uncollected():  # the collector would take a sixth of the time
    import adjoint.ops.operators
    from adjoint import autograd as autograd
    from adjoint.autograd.grad_mode import enable_grad as enable_grad
    from adjoint.autograd.grad_mode import inference_mode as inference_mode
    from adjoint.autograd.grad_mode import is_grad_enabled as is_grad_enabled
    from adjoint.autograd.grad_mode import is_inference as is_inference
    from adjoint.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
    from adjoint.autograd.grad_mode import no_grad as no_grad
    from adjoint.autograd.grad_mode import set_grad_enabled as set_grad_enabled
    from adjoint.functions import conversion as _conversion
    from adjoint.functions import index as _index
    from adjoint.functions import late as _late
    from adjoint.functions.activation import *
    from adjoint.functions.creation import *
    from adjoint.functions.gather import *
    from adjoint.functions.joining import *
    from adjoint.functions.linear import *
    from adjoint.functions.pointwise import *
    from adjoint.functions.reduce import *
    from adjoint.functions.shape import *

import adjoint.addresses  # places modules that are no files

if TYPE_CHECKING:
    from adjoint import _dynamo as _dynamo
    from adjoint import accelerator as accelerator
    from adjoint import amp as amp
    from adjoint import array_api as array_api
    from adjoint import backends as backends
    from adjoint import compiler as compiler
    from adjoint import cpu as cpu
    from adjoint import cuda as cuda
    from adjoint import data as data
    from adjoint import distributed as distributed
    from adjoint import distributions as distributions
    from adjoint import fft as fft
    from adjoint import func as func
    from adjoint import futures as futures
    from adjoint import hub as hub
    from adjoint import interop as interop
    from adjoint import jit as jit
    from adjoint import library as library
    from adjoint import linalg as linalg
    from adjoint import mps as mps
    from adjoint import multiprocessing as multiprocessing
    from adjoint import nn as nn
    from adjoint import optim as optim
    from adjoint import overrides as overrides
    from adjoint import profiler as profiler
    from adjoint import quasirandom as quasirandom
    from adjoint import random as random
    from adjoint import serialization as serialization
    from adjoint import signal as signal
    from adjoint import special as special
    from adjoint import testing as testing
    from adjoint import types as types
    from adjoint import utils as utils
    from adjoint import version as version
    from adjoint import xpu as xpu
    from adjoint.amp import GradScaler as GradScaler
    from adjoint.autograd.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
    from adjoint.autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
    from adjoint.autograd.vmap import vmap as vmap
    from adjoint.core.layout import jagged as jagged
    from adjoint.core.layout import sparse_bsc as sparse_bsc
    from adjoint.core.layout import sparse_bsr as sparse_bsr
    from adjoint.core.layout import sparse_coo as sparse_coo
    from adjoint.core.layout import sparse_csc as sparse_csc
    from adjoint.core.layout import sparse_csr as sparse_csr
    from adjoint.core.limits import finfo as finfo
    from adjoint.core.limits import iinfo as iinfo
    from adjoint.core.threads import get_num_threads as get_num_threads
    from adjoint.core.threads import set_num_threads as set_num_threads
    from adjoint.functions.arrangement import *
    from adjoint.functions.calculus import *
    from adjoint.functions.complex import *
    from adjoint.functions.convolution import *
    from adjoint.functions.description import *
    from adjoint.functions.distance import *
    from adjoint.functions.distributions import *
    from adjoint.functions.dropping import *
    from adjoint.functions.einsum import *
    from adjoint.functions.elementary import *
    from adjoint.functions.exchange import *
    from adjoint.functions.legacy import *
    from adjoint.functions.linalg import *
    from adjoint.functions.low_rank import *
    from adjoint.functions.normalization import *
    from adjoint.functions.order import *
    from adjoint.functions.plain import *
    from adjoint.functions.pooling import *
    from adjoint.functions.products import *
    from adjoint.functions.random import *
    from adjoint.functions.ranges import *
    from adjoint.functions.rectifiers import *
    from adjoint.functions.removed import *
    from adjoint.functions.scan import *
    from adjoint.functions.scatter import *
    from adjoint.functions.sections import *
    from adjoint.functions.segments import *
    from adjoint.functions.spectrogram import *
    from adjoint.functions.statistics import *
    from adjoint.functions.storages import *
    from adjoint.functions.storages import TypedStorage as TypedStorage
    from adjoint.functions.storages import UntypedStorage as UntypedStorage
    from adjoint.functions.strides import *
    from adjoint.functions.symbolic_sizes import *
    from adjoint.functions.windows import *
    from adjoint.serialization.files import load as load
    from adjoint.serialization.files import save as save

__version__ = "0.1.0"

# Imported when they are first asked for: a program that only differentiates starts without them.
_LATER = {
    "array_api": "adjoint.array_api", "interop": "adjoint.interop",
    "amp": "adjoint.amp", "compiler": "adjoint.compiler", "cpu": "adjoint.cpu",
    "data": "adjoint.data", "distributions": "adjoint.distributions", "fft": "adjoint.fft", "func": "adjoint.func",
    "nn": "adjoint.nn", "optim": "adjoint.optim",
    "utils": "adjoint.utils", "_dynamo": "adjoint._dynamo", "accelerator": "adjoint.accelerator",
    "backends": "adjoint.backends", "cuda": "adjoint.cuda", "distributed": "adjoint.distributed", "hub": "adjoint.hub",
    "jit": "adjoint.jit",
    "_C": "adjoint._C", "_utils": "adjoint._utils", "__config__": "adjoint.__config__", "library": "adjoint.library",
    "mps": "adjoint.mps", "multiprocessing": "adjoint.multiprocessing", "overrides": "adjoint.overrides",
    "futures": "adjoint.futures", "Future": "adjoint.futures:Future",
    "profiler": "adjoint.profiler", "quasirandom": "adjoint.quasirandom",
    "types": "adjoint.types", "version": "adjoint.version", "xpu": "adjoint.xpu",
    "GradScaler": "adjoint.amp:GradScaler", "PyTorchFileReader": "adjoint._C:PyTorchFileReader",
    "DeviceObjType": "adjoint.core.device:device",
    "Event": "adjoint.cuda:Event", "OutOfMemoryError": "adjoint.cuda:OutOfMemoryError", "Stream": "adjoint.cuda:Stream",
    "ScriptFunction": "adjoint.jit:ScriptFunction", "ScriptModule": "adjoint.jit:ScriptModule",
    "TypedStorage": "adjoint.functions.storages:TypedStorage",
    "UntypedStorage": "adjoint.functions.storages:UntypedStorage",
    "vmap": "adjoint.autograd.vmap:vmap",
    "is_anomaly_check_nan_enabled": "adjoint.autograd.anomaly_mode:is_anomaly_check_nan_enabled",
    "is_anomaly_enabled": "adjoint.autograd.anomaly_mode:is_anomaly_enabled",
    "get_num_threads": "adjoint.core.threads:get_num_threads",
    "set_num_threads": "adjoint.core.threads:set_num_threads",
    "linalg": "adjoint.linalg", "random": "adjoint.random", "special": "adjoint.special",
    "testing": "adjoint.testing",
    "finfo": "adjoint.core.limits:finfo", "iinfo": "adjoint.core.limits:iinfo",
    "load": "adjoint.serialization.files:load", "save": "adjoint.serialization.files:save",
    "serialization": "adjoint.serialization", "signal": "adjoint.signal",
}  # fmt: skip
_LAYOUTS = ("jagged", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr")
_UNHELD = """
    chalf complex32 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int1 int2
    int3 int4 int5 int6 int7 qint32 qint8 quint2x4 quint4x2 quint8 uint1 uint2 uint3 uint4 uint5 uint6 uint7
"""
_FOREACH = """
    abs abs_ acos acos_ add add_ addcdiv addcdiv_ addcmul addcmul_ asin asin_ atan atan_ ceil ceil_ clamp_max clamp_max_
    clamp_min clamp_min_ clone copy_ cos cos_ cosh cosh_ div div_ erf erf_ erfc erfc_ exp exp_ expm1 expm1_ floor floor_
    frac frac_ lerp lerp_ lgamma lgamma_ log log10 log10_ log1p log1p_ log2 log2_ log_ max maximum maximum_ minimum
    minimum_ mm mul mul_ neg neg_ norm pow pow_ powsum reciprocal reciprocal_ round round_ rsqrt rsqrt_ sigmoid sigmoid_
    sign sign_ sin sin_ sinh sinh_ sqrt sqrt_ sub sub_ tan tan_ tanh tanh_ trunc trunc_ zero_
"""
_LATER |= {name: f"adjoint.core.layout:{name}" for name in _LAYOUTS}
_LATER |= {f"_foreach_{name}": f"adjoint.functions.foreach:_foreach_{name}" for name in _FOREACH.split()}
_LATER |= {name: f"adjoint.core.unheld:{name}" for name in _UNHELD.split()}

newaxis = None
float = float32
double = float64
half = float16
cfloat = complex64
cdouble = complex128
short = int16
int = int32
long = int64


def __getattr__(name: str) -> Any:
    module, _, attribute = _LATER.get(name, "").partition(":")
    with _uncollected():
        found: Any = import_module(module) if module else _late.find(name)
    if found is None:
        raise AttributeError(f"module 'adjoint' has no attribute {name!r}")
    found = getattr(found, attribute) if attribute else found
    globals()[name] = found
    return found


def _kernels() -> Any:
    """What makes compiled kernels for eager ops; None without llvmlite."""
    try:
        return import_module("adjoint.compiler.eager").make
    except (ImportError, OSError):
        if _source.strict:
            raise
        return None


def _routine(name: str) -> Any:
    """A native function for small arrays; None without llvmlite."""
    try:
        with _uncollected():
            return import_module("adjoint.compiler.kernels.routines.loading").routine(name)
    except (ImportError, OSError, LookupError, ValueError):
        if _source.strict:
            raise
        return None


_source.bring, _source.routine = _kernels, _routine
_answers.bring = lambda: import_module("adjoint.interop.protocols")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_late.names()})


def compile(function: Any = None, **options: Any) -> Any:
    """`function`, a whole training or inference step, as native code: compiled on its first call for each signature.

    Usable as a decorator. Without llvmlite it warns once, and runs the function eagerly. See docs/compile.md.
    """
    with _uncollected():
        from adjoint.compiler.compile import compile as implementation

    return implementation(function, **options)
