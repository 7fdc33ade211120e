"""Slots through which NumPy code calls compiled kernels without knowing the compiler.

The package's `__init__` fills the slots with functions that import the compiler, or return None without llvmlite.
Whether a call takes a kernel depends on the function, its numbers, and the shapes, types and strides of its arrays,
never on how often it was called: kernels and NumPy differ in the last bits, and a repeated run must give the same.
Only kernels that give NumPy's bits may come after some calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np

from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.signature import with_parameters_of
from adjoint.core.runtime.signal_handlers import handlers_deferred
from adjoint.core.runtime.slot import Slot
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.memory_format import call_row_major
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Operands, Params

ndarray = np.ndarray
MIN_SECONDS = 2e-4  # seconds: a kernel takes about 200 times as long to compile
PANEL_BYTES = 128  # bytes of a row of a panel: see compiler/kernels/small_arrays/panel_product
MAX_SHAPES_PER_OP = 64  # kernels of one function: shapes that keep changing are left to NumPy
CONSTANT_TYPES = frozenset({int, float, bool, str, tuple, type(None)})  # what takes part in a kernel as it is

CostEstimate = float | Callable[..., float]


class FixedShapes(NamedTuple):
    """The cost of an op whose shapes a program repeats, as those of images: a kernel pays for a third of the work."""

    seconds: Callable[..., float]


SHARE_OF_FIXED_SHAPES = 1 / 3
Kernel = Callable[[list[Array]], Operand]
Maker = Callable[["KernelFunction", list[Operand], Params], Kernel | None]


def _decline(*operands: object, **params: object) -> None:
    """Return None: this machine has no such kernel."""


import_provider: Slot[Callable[[], Maker | None]] = Slot("kernel_maker", _decline)
routine_slot: Slot[Callable[[str], Function | None]] = Slot("routine", _decline)  # by name
stack_function_slot: Slot[Callable[[str], Function | None]] = Slot("stack_function", _decline)  # by name
row_kernel_slot: Slot[Callable[[str], Function | None]] = Slot("row_kernel", _decline)  # by the op's name
make_sampler: Slot[Callable[[Array], Any]] = Slot("drawer", _decline)  # from a random stream's state


MAX_CALLS_OF_SMALL_ROWS = 1000  # of fewer elements than that: a program of few such calls starts sooner without it
MIN_FIRST_SIZE = 512  # elements for which a row kernel is loaded: programs of small arrays start without the compiler


class KernelOperand(NamedTuple):
    """The layout of an array for which a kernel is made: row-major in the dimension order `order` (None: as it is)."""

    shape: tuple[int, ...]
    dtype: NumpyDtype
    dim_order: tuple[int, ...] | None


class _KernelProvider:
    """The source of kernels; `maker` is imported when it is first needed.

    `min_seconds`: calls that take NumPy less time get no kernel. `strict`: an error while a kernel is made is
    raised; otherwise NumPy takes over, after a warning if it is a fault of the code.
    """

    __slots__ = ("enabled", "min_seconds", "import_provider", "strict")

    def __init__(self) -> None:
        wish = os.environ.get("ADJOINT_EAGER_KERNELS", "1")
        self.min_seconds = MIN_SECONDS
        self.enabled, self.strict = wish != "0", wish == "strict"
        self.import_provider: Maker | None = None

    def ready(self) -> bool:
        """Import the maker if needed; return whether there is one."""
        if self.enabled and self.import_provider is None:
            self.import_provider = import_provider.call()
            self.enabled = self.import_provider is not None
        return self.enabled


kernel_provider = _KernelProvider()
FAULTS = AttributeError, NameError, TypeError  # which a refusal to make a kernel is not, unless it says so


class KernelRefusal(TypeError):
    """Raised for what no kernel computes: a refusal, not a fault."""


@contextmanager
def report_kernel_errors(name: str) -> Iterator[None]:
    """Suppress the errors that come up while native code is made, with a warning of a fault; raise them if strict."""
    try:
        yield
    except Exception as error:
        if kernel_provider.strict:
            raise
        if isinstance(error, FAULTS) and not isinstance(error, KernelRefusal):
            fault = f"{type(error).__name__}: {error}"
            warn_user(f"the native code of {name} could not be made, so NumPy computes it: {fault}", RuntimeWarning)


class KernelFunction:
    """A function of arrays and numbers, with the kernels made for it so far.

    `function` is what is traced, with tensors for its arrays; it gives a tensor, or a tuple of them. `weight`: the
    seconds that NumPy takes for an element of the largest array, or a function of the arguments that tells the seconds
    for all. `written`: the arguments that the function writes in place. `elementwise`: it is of one array alone, and
    the result lies in memory as that does.
    """

    __slots__ = ("elementwise", "function", "kernels", "name", "share", "weight", "written")

    def __init__(
        self,
        name: str,
        function: Function,
        weight: CostEstimate | FixedShapes,
        written: tuple[int, ...] = (),
        *,
        elementwise: bool = False,
    ) -> None:
        self.name, self.function, self.written = name, function, written
        self.weight: CostEstimate = weight.seconds if isinstance(weight, FixedShapes) else weight
        self.share = SHARE_OF_FIXED_SHAPES if isinstance(weight, FixedShapes) else 1.0
        self.elementwise = elementwise
        self.kernels: dict[object, Kernel | None] = {}

    def find(self, arguments: Operands, params: Params) -> Array | tuple[Array, Array] | None:
        """Compute the function of these arguments by a kernel; return None if NumPy should compute it."""
        if not kernel_provider.enabled or not self._is_worthwhile(arguments, params):
            return None
        if self.elementwise and not arguments[0].flags.c_contiguous:
            return call_row_major(lambda x: self.find((x,), params), arguments[0])
        key: list[object] = []
        marks: list[str] = [repr(params)] if params else []  # tells 0.0 from -0.0, and 1 from True
        arrays: list[Array] = []
        for x in arguments:
            if type(x) is ndarray:
                order = None if x.flags.c_contiguous else _order(x)
                key.append(KernelOperand(x.shape, x.dtype, order))
                arrays.append(x if order is None else x.transpose(order))
            elif type(x) in CONSTANT_TYPES:
                key.append(x)
                marks.append(repr(x))
            else:
                return None
        exact = (*key, *marks)
        if exact not in self.kernels:
            self._make(exact, key, params)
        kernel = self.kernels.get(exact)
        return None if kernel is None else kernel(arrays)

    def _is_worthwhile(self, arguments: Operands, params: Params) -> bool:
        weight, enough = self.weight, kernel_provider.min_seconds * self.share
        if not isinstance(weight, float):
            return weight(*arguments, **params) >= enough
        for x in arguments:  # noqa: SIM110  a third of the time of `any` and a generator
            if type(x) is ndarray and x.size * weight >= enough:
                return True
        return False

    def _make(self, exact: tuple[object, ...], key: list[object], params: Params) -> None:
        if (
            kernel_provider.ready()
            and kernel_provider.import_provider is not None
            and len(self.kernels) < MAX_SHAPES_PER_OP
        ):
            with handlers_deferred():  # a handler's ops are none of the kernel's, whose function is traced
                self.kernels[exact] = kernel_provider.import_provider(self, key, params)

    def __repr__(self) -> str:
        return f"<{self.name}: {pluralize(sum(k is not None for k in self.kernels.values()), 'kernel')}>"


def with_eager_kernel(weight: float) -> Callable[[Function], Function]:
    """Let kernels compute a gradient rule whose arguments are arrays.

    `weight`: the seconds that NumPy takes for an element of the first argument, the incoming gradient.
    """

    def declare(function: Function) -> Function:
        native = KernelFunction(function.__name__, function, weight)
        least = MIN_SECONDS / weight

        def call(*arguments: Operand) -> Operand:
            first = arguments[0]
            if type(first) is ndarray and first.size >= least:
                found = native.find(arguments, {})
                if found is not None:
                    return found
            return function(*arguments)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        vars(call)["native"] = native
        return with_parameters_of(call, function)

    return declare


class eager_kernels:
    """A setting: may eager convolutions, pooling, attention, normalisation and the like run as compiled kernels?

    In force from the call on in all threads, or until the end of a `with` block. They may unless
    $ADJOINT_EAGER_KERNELS is 0; where llvmlite is not installed NumPy does all. Kernels and NumPy differ in the last
    bits.
    """

    def __init__(self, enabled: bool) -> None:
        self.before = kernel_provider.enabled
        kernel_provider.enabled = bool(enabled)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        kernel_provider.enabled = self.before


def _order(x: Array) -> tuple[int, ...] | None:
    """Return the dimension order in which an array is row-major; None if it has gaps or repeats elements."""
    order = tuple(sorted(range(x.ndim), key=lambda d: -x.strides[d]))
    return order if x.transpose(order).flags.c_contiguous else None


class SmallArrayKernel:
    """A native function for small arrays. `call(*operands)` returns a new array, or None if NumPy should compute it.

    It takes small row-major arrays of float32 or float64, and others as its declaration has them (see
    compiler/kernels/routines); anything may be given, but shapes that do not go together. Where it runs
    `kernel_provider` is `enabled`, which callers look at.
    """

    __slots__ = ("call", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.call: Function = self._resolve_and_call

    def _resolve_and_call(self, *operands: Operand) -> Array | None:
        if not any(type(x) is ndarray for x in operands):
            return None  # a step is being traced, which is no time to compile something else
        self.call = routine_slot.call(self.name) or _decline
        return self.call(*operands)

    def __repr__(self) -> str:
        return f"<routine {self.name}>"


BIT_TWINS = {np.dtype(np.int64): np.dtype(np.float64), np.dtype(np.int32): np.dtype(np.float32)}


def call_with_bits(
    kernel: SmallArrayKernel, moved: Sequence[Array], before: Operands = (), after: Operands = ()
) -> Array | None:
    """Call a kernel that moves elements of `moved`, integers, which it takes for floats of their size."""
    dtype = moved[0].dtype
    twin = BIT_TWINS.get(dtype)
    if twin is None:
        return None
    for x in moved:
        if type(x) is not ndarray or x.dtype is not dtype:
            return None
    found: Array | None = kernel.call(*before, *[x.view(twin) for x in moved], *after)
    return None if found is None else found.view(dtype)


class LateKernel(SmallArrayKernel):
    """One that gives the bits of what it stands for, so that it may come after many calls of small arrays."""

    __slots__ = ("_calls",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._calls = 0

    def _resolve_and_call(self, *operands: Operand) -> Array | None:
        self._calls += 1
        if self._calls <= MAX_CALLS_OF_SMALL_ROWS and max(getattr(x, "size", 0) for x in operands) < MIN_FIRST_SIZE:
            return None
        return super()._resolve_and_call(*operands)


class StackFunction:
    """A native function of stacks of matrices, of any shapes and of float32 or float64."""

    __slots__ = ("_function", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._function: Function | None = None

    def find(self, *arrays: Array, flags: tuple[int, ...]) -> tuple[Array, int] | None:
        """The result, a new array, and a number that is not 0 if a matrix has none; None if NumPy should compute it."""
        if not kernel_provider.enabled:
            return None
        if self._function is None:
            self._function = stack_function_slot.call(self.name) or _decline
        found: tuple[Array, int] | None = self._function(*arrays, flags=flags)
        return found

    def __repr__(self) -> str:
        return f"<stack function {self.name}>"


class RowKernel:
    """A native function along a dimension of arrays of any size: `call(*operands, **params)` with an op's parameters.

    It returns a new array, or None if NumPy should compute it. `finds_positions`: its results are integers, the same
    whoever computes them, so that many calls of small arrays load it, too. An array of `min_first_size` elements loads
    it at once.
    """

    __slots__ = ("_calls", "_finds_positions", "_min_first_size", "call", "name")

    def __init__(self, name: str, *, finds_positions: bool = False, min_first_size: int = MIN_FIRST_SIZE) -> None:
        self.name, self._min_first_size = name, min_first_size
        self._calls, self._finds_positions = 0, finds_positions
        self.call: Function = self._resolve_and_call

    def _resolve_and_call(self, *operands: Operand, **params: object) -> Array | None:
        arrays = [x for x in operands if type(x) is ndarray]
        if not arrays or not kernel_provider.enabled:  # without arrays a step is being traced
            return None
        self._calls += self._finds_positions
        if self._calls <= MAX_CALLS_OF_SMALL_ROWS and not any(x.size >= self._min_first_size for x in arrays):
            return None
        self.call = row_kernel_slot.call(self.name) or _decline
        return self.call(*operands, **params)

    def __repr__(self) -> str:
        return f"<row kernel {self.name}>"


def try_small_reduction(
    rows: SmallArrayKernel, whole: SmallArrayKernel, x: Operand, axes: tuple[int, ...], *numbers: float
) -> Array | None:
    """Reduce an array over all its axes or the last ones; None for other axes, or if NumPy should compute it."""
    if not kernel_provider.enabled:
        return None
    rank, count = x.ndim, len(axes)
    if count == rank:
        return whole.call(x, *numbers)
    if count == 1:
        return rows.call(x, *numbers) if axes[0] == rank - 1 else None
    if count < 1 or axes != tuple(range(rank - count, rank)) or not x.flags.c_contiguous or not x.size:
        return None
    return rows.call(x.reshape(*x.shape[: rank - count], -1), *numbers)
