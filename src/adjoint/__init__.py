"""Adjoint: automatic differentiation on NumPy, with PyTorch's words, and a compiler for whole training steps.

Modules, in reading order:

- `core`: Tensors and ops, from which everything else is built.
- `ops`: The primitives, each declared once: a NumPy function, its gradient rules, its spec and its lowering.
- `autograd`: Walking the recorded graph: the engine, grad modes and custom functions.
- `functions`: The public functions, each written once.
- `transforms`: Functions of functions: derivatives forward and reverse, batches, and their composition.
- `nn`: Neural networks: modules, which hold state, and the functions they call.
- `optim`: Optimizers, which change parameters along their gradients, and schedules of their learning rates.
- `data`: Datasets, the orders in which to go through them, and batches.
- `distributed`: `adjoint.distributed`: several processes that train together, on one machine or many, over MPI.
- `distributions`: Distributions: samples, densities, entropies and divergences, with gradients.
- `serialization`: Values on disk: PyTorch's format and safetensors, and atomic replacement of files.
- `amp`: Mixed precision: `autocast` for the precision of each function, `GradScaler` against vanishing gradients.
- `quasirandom`: Quasirandom numbers: points of Sobol's sequence, which fill space more evenly than random ones.
- `interop`: Interoperation with other libraries: NumPy, DLPack, the array API standard, einops.
- `testing`: Tensors to test with, comparison with tolerances, and gradients held against finite differences.
- `diagnosis`: Diagnosis: what is wrong with a program, told by its lines and the user's names.
- `utils`: Recomputation of activations, the counter of operations, the profiler, and the switch for deterministic
  results.
- `linalg`: `adjoint.linalg`: linear algebra on stacks of matrices.
- `fft`: `adjoint.fft`: discrete Fourier transforms.
- `special`: `adjoint.special`: special functions, such as Bessel functions, orthogonal polynomials and zeta.
- `signal`: `adjoint.signal`: windows of signals, as `torch.signal` has them.
- `func`: `adjoint.func`: transforms that compose, as in `torch.func`: derivatives, `vmap`, and modules as functions.
- `library`: `adjoint.library`: custom ops with names and gradients of their own, as `torch.library` has them.
- `compiler`: The compiler: a Python step becomes native code by tracing, rewriting, fusion and lowering.
- `compat`: PyTorch's names that nothing else here needs, from one table.
"""

from __future__ import annotations

from importlib import import_module
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING, Any

from adjoint.compat import finder as _finder
from adjoint.compat import lazy_table as _compat_table
from adjoint.compat import namespace as _namespace
from adjoint.core.dtype.device import device as device
from adjoint.core.dtype.dtype import bfloat16 as bfloat16
from adjoint.core.dtype.dtype import bool_ as bool
from adjoint.core.dtype.dtype import complex64 as complex64
from adjoint.core.dtype.dtype import complex128 as complex128
from adjoint.core.dtype.dtype import dtype as dtype
from adjoint.core.dtype.dtype import float16 as float16
from adjoint.core.dtype.dtype import float32 as float32
from adjoint.core.dtype.dtype import float64 as float64
from adjoint.core.dtype.dtype import get_default_dtype as get_default_dtype
from adjoint.core.dtype.dtype import int8 as int8
from adjoint.core.dtype.dtype import int16 as int16
from adjoint.core.dtype.dtype import int32 as int32
from adjoint.core.dtype.dtype import int64 as int64
from adjoint.core.dtype.dtype import promote_types as promote_types
from adjoint.core.dtype.dtype import result_type as result_type
from adjoint.core.dtype.dtype import set_default_dtype as set_default_dtype
from adjoint.core.dtype.dtype import uint8 as uint8
from adjoint.core.dtype.dtype import uint16 as uint16
from adjoint.core.dtype.dtype import uint32 as uint32
from adjoint.core.dtype.dtype import uint64 as uint64
from adjoint.core.op.autocast import autocast as autocast
from adjoint.core.op.autocast import clear_autocast_cache as clear_autocast_cache
from adjoint.core.op.autocast import get_autocast_dtype as get_autocast_dtype
from adjoint.core.op.autocast import is_autocast_cache_enabled as is_autocast_cache_enabled
from adjoint.core.op.autocast import is_autocast_enabled as is_autocast_enabled
from adjoint.core.op.autocast import set_autocast_cache_enabled as set_autocast_cache_enabled
from adjoint.core.op.autocast import set_autocast_dtype as set_autocast_dtype
from adjoint.core.op.autocast import set_autocast_enabled as set_autocast_enabled
from adjoint.core.op.eager_kernels import import_provider as _maker_slot
from adjoint.core.op.eager_kernels import kernel_provider as _source
from adjoint.core.op.eager_kernels import routine_slot as _routine_slot
from adjoint.core.op.eager_kernels import row_kernel_slot as _row_kernel_slot
from adjoint.core.op.eager_kernels import stack_function_slot as _stack_function_slot
from adjoint.core.op.elementwise_kernels import arithmetic_slot as _arithmetic_slot
from adjoint.core.op.elementwise_kernels import elementwise_slot as _elementwise_slot
from adjoint.core.op.matmul_precision import get_float32_matmul_precision as get_float32_matmul_precision
from adjoint.core.op.matmul_precision import set_float32_matmul_precision as set_float32_matmul_precision
from adjoint.core.runtime.compile_slot import compile_slot as _compile_slot
from adjoint.core.runtime.compile_slot import compile_source_slot as _compile_source_slot
from adjoint.core.runtime.explanation_slot import explain_uncaught_errors as _explain_uncaught_errors
from adjoint.core.runtime.explanation_slot import explanation_slot as _explanation_slot
from adjoint.core.runtime.explanation_slot import uncaught_slot as _uncaught_slot
from adjoint.core.runtime.gc_pause import gc_paused as _uncollected
from adjoint.core.runtime.lazy_import import importing as _importing
from adjoint.core.runtime.notebook import display_slot as _display_slot
from adjoint.core.runtime.threads import warn_without_gil as _warn_without_gil
from adjoint.core.tensor import sparse_array as _sparse_array
from adjoint.core.tensor.memory_format import channels_last as channels_last
from adjoint.core.tensor.memory_format import channels_last_3d as channels_last_3d
from adjoint.core.tensor.memory_format import contiguous_format as contiguous_format
from adjoint.core.tensor.memory_format import contiguous_format as legacy_contiguous_format
from adjoint.core.tensor.memory_format import layout as layout
from adjoint.core.tensor.memory_format import memory_format as memory_format
from adjoint.core.tensor.memory_format import preserve_format as preserve_format
from adjoint.core.tensor.memory_format import strided as strided
from adjoint.core.tensor.printing import set_printoptions as set_printoptions
from adjoint.core.tensor.protocols import import_handlers as _answers_slot
from adjoint.core.tensor.size import Size as Size
from adjoint.core.tensor.tensor import Tensor as Tensor
from adjoint.core.typing import Function, Operand
from adjoint.ops.linalg.blas_products import tiles_slot as _tiles_slot

_warn_without_gil()
_finder.install_namespace()
with _uncollected():  # the collector would take a sixth of the time
    from adjoint import autograd as autograd
    from adjoint.autograd.backward import map_in_front_slot as _map_in_front_slot
    from adjoint.autograd.grad_mode import enable_grad as enable_grad
    from adjoint.autograd.grad_mode import inference_mode as inference_mode
    from adjoint.autograd.grad_mode import is_grad_enabled as is_grad_enabled
    from adjoint.autograd.grad_mode import is_inference as is_inference
    from adjoint.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
    from adjoint.autograd.grad_mode import no_grad as no_grad
    from adjoint.autograd.grad_mode import set_grad_enabled as set_grad_enabled
    from adjoint.functions.api import lazy_index as _late
    from adjoint.functions.creation.creation import *
    from adjoint.functions.elementwise import dtype_conversion as _conversion
    from adjoint.functions.elementwise.activation import *
    from adjoint.functions.elementwise.pointwise import *
    from adjoint.functions.indexing import getitem as _index
    from adjoint.functions.indexing.gather import *
    from adjoint.functions.indexing.masked_nonzero import *
    from adjoint.functions.linalg.matmul import *
    from adjoint.functions.linalg.norms import *
    from adjoint.functions.reduction.reduce import *
    from adjoint.functions.shape.join import *
    from adjoint.functions.shape.repeat import *
    from adjoint.functions.shape.shape import *
    from adjoint.interop.einops import watch_import as _watch_import_of_einops
    from adjoint.ops import operators as _operators  # `import adjoint.…` would hide the function `adjoint`

    _watch_import_of_einops()
    _late.add_lazy_names(_compat_table.METHODS, _compat_table.FUNCTIONS, "adjoint.compat")
    _late.FUNCTIONS_IN_PLACE.update(_namespace.IN_PLACE_FUNCTIONS.split())

if TYPE_CHECKING:
    from adjoint import amp as amp
    from adjoint import compiler as compiler
    from adjoint import data as data
    from adjoint import distributed as distributed
    from adjoint import distributions as distributions
    from adjoint import fft as fft
    from adjoint import func as func
    from adjoint import interop as interop
    from adjoint import library as library
    from adjoint import linalg as linalg
    from adjoint import nn as nn
    from adjoint import optim as optim
    from adjoint import quasirandom as quasirandom
    from adjoint import serialization as serialization
    from adjoint import signal as signal
    from adjoint import special as special
    from adjoint import utils as utils
    from adjoint.amp import GradScaler as GradScaler
    from adjoint.autograd.debug.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
    from adjoint.autograd.debug.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
    from adjoint.compat import torch_function as overrides
    from adjoint.compat.functions.checks import *
    from adjoint.compat.functions.copy_variants import *
    from adjoint.compat.functions.foreach import *
    from adjoint.compat.functions.legacy_types import *
    from adjoint.compat.functions.removed import *
    from adjoint.compat.functions.settings import *
    from adjoint.compat.functions.sym_int import *
    from adjoint.compat.functions.tensor_queries import *
    from adjoint.compat.functions.torch_signatures import *
    from adjoint.compat.stubs import annotations as types
    from adjoint.compat.stubs import futures as futures
    from adjoint.compat.stubs import hub as hub
    from adjoint.compat.stubs import jit as jit
    from adjoint.compat.stubs import multiprocessing as multiprocessing
    from adjoint.compat.stubs import random as random
    from adjoint.compat.stubs import version as version
    from adjoint.compat.stubs.devices import backends as backends
    from adjoint.compat.stubs.devices import cpu as cpu
    from adjoint.compat.stubs.devices import cuda as cuda
    from adjoint.compat.stubs.devices.absent import accelerator as accelerator
    from adjoint.compat.stubs.devices.absent import mps as mps
    from adjoint.compat.stubs.devices.absent import xpu as xpu
    from adjoint.compat.unsupported_dtypes import *
    from adjoint.core.dtype.dtype_info import finfo as finfo
    from adjoint.core.dtype.dtype_info import iinfo as iinfo
    from adjoint.core.runtime.threads import get_num_threads as get_num_threads
    from adjoint.core.runtime.threads import set_num_threads as set_num_threads
    from adjoint.core.tensor.memory_format import jagged as jagged
    from adjoint.core.tensor.memory_format import sparse_bsc as sparse_bsc
    from adjoint.core.tensor.memory_format import sparse_bsr as sparse_bsr
    from adjoint.core.tensor.memory_format import sparse_coo as sparse_coo
    from adjoint.core.tensor.memory_format import sparse_csc as sparse_csc
    from adjoint.core.tensor.memory_format import sparse_csr as sparse_csr
    from adjoint.diagnosis.doctor import doctor as doctor
    from adjoint.diagnosis.visualization.visualize import visualize as visualize
    from adjoint.functions.creation.buffers_dlpack import *
    from adjoint.functions.creation.linspace_logspace import *
    from adjoint.functions.creation.random import *
    from adjoint.functions.creation.sampling import *
    from adjoint.functions.creation.typed_storage import *
    from adjoint.functions.creation.typed_storage import TypedStorage as TypedStorage
    from adjoint.functions.creation.typed_storage import UntypedStorage as UntypedStorage
    from adjoint.functions.elementwise.allclose import *
    from adjoint.functions.elementwise.complex import *
    from adjoint.functions.elementwise.float_functions import *
    from adjoint.functions.elementwise.relu_variants import *
    from adjoint.functions.indexing.scatter import *
    from adjoint.functions.linalg.distance import *
    from adjoint.functions.linalg.einsum import *
    from adjoint.functions.linalg.low_rank import *
    from adjoint.functions.linalg.products import *
    from adjoint.functions.linalg.top_level_names import *
    from adjoint.functions.loss.similarity import cosine_similarity as cosine_similarity
    from adjoint.functions.loss.similarity import pairwise_distance as pairwise_distance
    from adjoint.functions.nn.adaptive_pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
    from adjoint.functions.nn.channel_ops import *
    from adjoint.functions.nn.conv_transpose import *
    from adjoint.functions.nn.convolution import *
    from adjoint.functions.nn.dropout import alpha_dropout as alpha_dropout
    from adjoint.functions.nn.dropout import alpha_dropout_ as alpha_dropout_
    from adjoint.functions.nn.dropout import dropout as dropout
    from adjoint.functions.nn.dropout import dropout_ as dropout_
    from adjoint.functions.nn.dropout import feature_alpha_dropout as feature_alpha_dropout
    from adjoint.functions.nn.dropout import feature_alpha_dropout_ as feature_alpha_dropout_
    from adjoint.functions.nn.dropout import feature_dropout as feature_dropout
    from adjoint.functions.nn.dropout import feature_dropout_ as feature_dropout_
    from adjoint.functions.nn.normalization import *
    from adjoint.functions.nn.pad import *
    from adjoint.functions.nn.pooling import *
    from adjoint.functions.nn.unpool_fold import unfold as unfold
    from adjoint.functions.reduction import masked as masked
    from adjoint.functions.reduction.cumulative import *
    from adjoint.functions.reduction.histogram import *
    from adjoint.functions.reduction.numerical_calculus import *
    from adjoint.functions.reduction.segment_reduce import *
    from adjoint.functions.reduction.sort_quantile_unique import *
    from adjoint.functions.reduction.statistics import *
    from adjoint.functions.shape.as_strided import *
    from adjoint.functions.shape.diag_tril import *
    from adjoint.functions.shape.flip_roll import *
    from adjoint.functions.shape.meshgrid_combinations import *
    from adjoint.functions.shape.split import *
    from adjoint.functions.signal.stft import *
    from adjoint.functions.signal.windows import *
    from adjoint.functions.sparse import namespace as sparse
    from adjoint.functions.sparse.creation import *
    from adjoint.functions.sparse.product_functions import *
    from adjoint.interop import array_api as array_api
    from adjoint.serialization.files import load as load
    from adjoint.serialization.files import save as save
    from adjoint.testing import comparison as testing
    from adjoint.transforms.vmap.vmap import vmap as vmap
    from adjoint.utils import profiler as profiler

__version__ = "0.1.0"

# Imported when they are first asked for: a program that only differentiates starts without them.
_LAZY_MODULES = """
    amp compiler data distributed distributions fft func interop library linalg nn optim quasirandom
    serialization signal special testing utils
"""
_LAZY_NAMES = {
    "amp": "GradScaler",
    "autograd.debug.anomaly_mode": "is_anomaly_check_nan_enabled is_anomaly_enabled",
    "compiler.scripts.compile_all": "compile_all",
    "core.dtype.dtype_info": "finfo iinfo",
    "core.runtime.threads": "get_num_threads set_num_threads",
    "core.tensor.memory_format": "jagged sparse_bsc sparse_bsr sparse_coo sparse_csc sparse_csr",
    "diagnosis.doctor": "doctor",
    "diagnosis.visualization.visualize": "visualize",
    "serialization.files": "load save",
    "transforms.vmap.vmap": "vmap",
}
_LAZY_HOMES = {name: name for name in _LAZY_MODULES.split()} | {
    name: f"{home}:{name}" for home, names in _LAZY_NAMES.items() for name in names.split()
}

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
    home, _, attribute = _LAZY_HOMES.get(name, "").partition(":")
    with _importing():
        value: Any = import_module(f"adjoint.{home}") if home else _late.find_lazy_function(name)
        if value is None:
            value = _finder.find_name(name)
    if value is None:
        from adjoint.core.runtime.similar_names import missing_name_error

        raise missing_name_error("adjoint", name, __dir__)
    globals()[name] = value = getattr(value, attribute) if attribute else value
    return value


@_maker_slot.fill
def _import_kernel_maker() -> Function | None:
    """Return the maker of compiled kernels for eager ops; None without llvmlite."""
    try:
        with _importing():
            return import_module("adjoint.compiler.eager.kernels").make_kernel
    except (ImportError, OSError):
        if _source.strict:
            raise
        return None


def _fill_with_loader(slot: Any, home: str, function: str, required: object = False) -> None:
    """Fill a slot with a function whose module is loaded when it is needed."""

    def load(*arguments: Operand) -> object:
        """Return what the function returns; None without llvmlite, unless it is required."""
        try:
            with _importing():
                return getattr(import_module(f"adjoint.{home}"), function)(*arguments)
        except (ImportError, OSError, LookupError, ValueError):
            if required or _source.strict:
                raise
            return None

    slot.fill(load)


_fill_with_loader(_routine_slot, "compiler.kernels.small_arrays.loading", "routine")
_fill_with_loader(_arithmetic_slot, "compiler.kernels.small_arrays.loading", "arithmetic")
_fill_with_loader(_stack_function_slot, "compiler.kernels.linalg.eager", "load_stack_function")
_fill_with_loader(_row_kernel_slot, "compiler.eager.row_kernels", "row_kernel")
_fill_with_loader(_elementwise_slot, "compiler.eager.elementwise", "make_elementwise_kernel")
_fill_with_loader(_compile_source_slot, "compiler.scripts.compile_all", "compile_source", required=True)
for _maker, _slot in _sparse_array.MAKERS.items():
    _fill_with_loader(_slot, "functions.sparse.creation", _maker, required=True)


@_tiles_slot.fill
def _multiply_tiles(*operands: object) -> object:
    """Write a product by the threads of compiled programs; return False where none can be compiled."""
    try:
        with _importing():
            _tiles_slot.fill(import_module("adjoint.compiler.eager.product_tiles").multiply_tiles)
        return _tiles_slot.call(*operands)  # the first call compiles
    except Exception:
        _tiles_slot.empty()
        if _source.strict:
            raise
        return False


@_map_in_front_slot.fill
def _map_in_front(function: Any, tensors: Any) -> Any:
    """Map `function` over the rows of the tensors by `vmap`, which is loaded when it is needed."""
    with _importing():
        from adjoint.transforms.vmap.vmap import vmap_dim0

    return vmap_dim0(function, tensors)


@_explanation_slot.fill
def _explain(error: BaseException) -> None:
    with _importing():
        from adjoint.diagnosis.error_explanation import add_explanation
    add_explanation(error)


@_display_slot.fill
def _render_for_notebook(value: object) -> str | None:
    with _importing():
        from adjoint.diagnosis.displays.value_display import render
    return render(value)


@_uncaught_slot.fill
def _explain_uncaught(error: BaseException, trace: Any) -> None:
    with _importing():
        from adjoint.diagnosis.error_explanation import add_uncaught_explanation
    add_uncaught_explanation(error, trace)


_explain_uncaught_errors()


@_answers_slot.fill
def _answers() -> Any:
    """Return the module that answers other libraries' questions about tensors."""
    with _importing():
        return import_module("adjoint.interop.protocols")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_HOMES, *_late.lazy_function_names(), *_finder.names_below("")})


@_compile_slot.fill
def compile(function: Function | None = None, **options: Any) -> Function:
    """Return a function or module compiled to native code: forward, backward and optimizer in one program.

    The first call with each signature (shapes, dtypes, other arguments) traces the function and compiles a program;
    later calls run it. Results and side effects are those of the function. `@compile` decorates, with or without
    arguments. See docs/compile.md.

    Args:
        function: whole training or inference step, or a module. Default: None, for a decorator with arguments.
        fallback: True to run a step that cannot be compiled eagerly, after one warning. Default: False, raise
            TraceError; True in PyTorch programs under `adjoint.run`, unless they set `fullgraph`.
        verbose: True to write a line for each program to standard error: "step: compiled in 0.4 s: 11 kernels".
            Default: False.
        disable: True to return the function itself. Default: False.
        mode, fullgraph, dynamic, backend, options: accepted and otherwise ignored.

    Returns: a callable with `explain()`, `graph`, `kernels`, `memory()` and `source()` of its last program. Without
    llvmlite it runs eagerly, after a RuntimeWarning, and `explain()` tells why.

    Raises: TypeError for other options; TraceError, which names the line, at the first call of a step that cannot be
    compiled.

    Example:
        >>> step = ad.compile(lambda x: (2 * x + 1).sum())
        >>> step(ad.ones(3)), step(ad.zeros(3)), step.compilations
        (tensor(9.), tensor(3.), 1)
    """
    with _importing():
        from adjoint.compiler.compile import compile as implementation

    return implementation(function, **options)
