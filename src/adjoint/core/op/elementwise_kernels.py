"""Kernels for functions of single elements: native code for arrays of any shape, made once for each set of numbers.

Where NumPy goes through memory once for each operation, such a kernel does so once for the whole function. Its text
holds no sizes, so streams of arrays of changing shapes take one kernel.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np

from adjoint.core.op.eager_kernels import CONSTANT_TYPES, kernel_provider
from adjoint.core.op.signature import with_all_parameters_of
from adjoint.core.runtime.signal_handlers import handlers_deferred
from adjoint.core.runtime.slot import Slot
from adjoint.core.typing import Array, Function, Operand, Operands, Params

ndarray = np.ndarray
MIN_ELEMENTS = 512  # of fewer, NumPy's calls take less than a kernel takes to load, unless there are many
MAX_NUMBER_SETS = 16  # kernels of one function: numbers that keep changing are left to NumPy
KERNEL_TYPES = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def _decline(*operands: object) -> None:
    """Return None: this machine has no such kernel."""


# Operands of a kernel: an array, an array without dimensions of its type or a float in that type, a float in float64
# until it meets an element. A number that is part of the text is (number,).
ARRAY, SCALAR, NUMBER = None, (), float
# Makes the native function of arrays and floats from a function of tensors, the kinds of its operands, its parameters,
# and the operands that it writes. It returns None for arrays of several shapes; if it writes any, unless row-major.
elementwise_slot: Slot[Callable[..., Function | None]] = Slot("elementwise", _decline)
arithmetic_slot: Slot[Callable[[str, Function], Function | None]] = Slot("arithmetic", _decline)  # by name
MAX_CALLS_WITHOUT_KERNEL = 1000  # of small arrays: few take less time than the compiler takes to load


class ElementwiseKernel:
    """A function of elements, with the kernels made for it so far: `function` is what is traced.

    `same_bits`: a kernel gives the bits of NumPy, so it need not depend on the operands alone when it comes; arrays of
    fewer than `min_elements` take one after `MAX_CALLS_WITHOUT_KERNEL` calls, or, if the bits differ, never.
    `of_arrays`: the kernel of arrays alone, of `min_taken` elements, and of arrays without dimensions, once there is
    one; it looks at types, shapes and layout itself. `into_first`: the same, which writes into the first array.
    `natives`: the kernels by the kinds of arrays, the numbers and the parameters, with the signs of those that are 0.
    """

    __slots__ = (
        "_calls",
        "function",
        "into_first",
        "kernels",
        "min_elements",
        "min_taken",
        "natives",
        "of_arrays",
        "same_bits",
    )

    def __init__(self, function: Function, *, same_bits: bool = False, min_elements: int = MIN_ELEMENTS) -> None:
        self.function, self.same_bits, self.min_elements = function, same_bits, min_elements
        self.min_taken = 0 if same_bits else min_elements  # elements of what a kernel takes once it is there
        self._calls = 0
        self.of_arrays: Function | None = None
        self.into_first: Function | None = None
        self.kernels: dict[object, Function | None] = {}
        self.natives: dict[object, Function] = {}

    def find(self, operands: Operands, params: Params) -> Array | None:
        """Compute the function of arrays of one shape and type, and numbers; return None if NumPy should.

        An array of which all elements are one in memory, as the gradient of a sum is, counts as its element.
        """
        if not kernel_provider.enabled:
            return None
        given: list[Array | float] = []
        marks: list[object] = []
        shape, size = None, 0
        for x in operands:
            if type(x) is ndarray:
                if not any(x.strides):
                    marks.append(SCALAR)
                    given.append(x.item(0) if x.size else 0.0)
                    if not x.ndim:
                        continue
                else:
                    marks.append(ARRAY)
                    given.append(x)
                if shape is None:
                    shape, size = x.shape, x.size
                elif x.shape != shape:
                    return None
            elif type(x) in CONSTANT_TYPES:
                marks.append(x)
            else:
                return None
        if params:
            marks.extend(params.values())
        if self.natives and size >= self.min_taken:
            native = self.find_native((*marks,))
            found: Array | None = None if native is None else native(*given)
            if found is not None:
                return found
        return self._find_by_kinds(operands, params, given, marks)

    def find_native(self, marks: Operands) -> Function | None:
        """Return the kernel for these kinds of arrays, numbers and parameters, if there is one."""
        return self.natives.get(marks if 0 not in marks else _with_signs_of_zeros(marks))

    def _find_by_kinds(
        self, operands: Operands, params: Params, given: list[Array | float], marks: list[object]
    ) -> Array | None:
        """Compute the function as `find` does, where there is no kernel yet."""
        arrays: list[Array] = [x for x in operands if type(x) is ndarray]
        first = next((x for x in arrays if any(x.strides)), None)
        if first is not None and first.size < self.min_elements:
            self._calls += 1
        if (
            first is None
            or (first.size < self.min_elements and not (self.same_bits and self._calls > MAX_CALLS_WITHOUT_KERNEL))
            or first.dtype not in KERNEL_TYPES
            or any(x.dtype is not first.dtype for x in arrays)
        ):
            return None
        kinds = tuple([mark if type(x) is ndarray else (x,) for mark, x in zip(marks, operands, strict=False)])
        key = repr((kinds, params))  # tells 0.0 from -0.0, and 1 from True
        kernel = self.kernels[key] if key in self.kernels else self._make(key, kinds, params)
        if kernel is None:
            return None
        self.natives[_with_signs_of_zeros((*marks,))] = kernel
        if not params and all(type(x) is ndarray and bool(x.shape) is bool(any(x.strides)) for x in operands):
            self.of_arrays = kernel
        found: Array | None = kernel(*given)
        return found

    def _make(self, key: object, kinds: Operands, params: Params) -> Function | None:
        if len(self.kernels) >= MAX_NUMBER_SETS or not kernel_provider.ready():
            return None
        with handlers_deferred():  # a handler's ops are none of the kernel's, whose function is traced
            self.kernels[key] = made = elementwise_slot.call(self.function, kinds, params)
        return made

    def write_into_first(self, operands: tuple[Array, ...]) -> bool:
        """Write the function of arrays into the first of them if there is a kernel for it; return whether it did.

        The others must be of its type, and share no element with it but at the same place.
        """
        if self.into_first is None:
            if self.of_arrays is None:
                return False
            kinds = tuple([ARRAY if x.shape else SCALAR for x in operands])
            self.into_first = _decline
            with handlers_deferred():
                self.into_first = elementwise_slot.call(self.function, kinds, {}, (0,)) or _decline
        return self.into_first(*operands) is not None


def _with_signs_of_zeros(marks: Operands) -> Operands:
    """Return marks that tell 0.0 from -0.0, which are equal."""
    return (*marks, *[math.copysign(1.0, x) for x in marks if isinstance(x, (int, float)) and not x])


class InPlaceKernel:
    """A function that writes elements of its arrays in place: `function` is what is traced, `written` the operands."""

    __slots__ = ("_kernels", "function", "written")

    def __init__(self, function: Function, written: tuple[int, ...]) -> None:
        self.function, self.written = function, written
        self._kernels: dict[Operands, Function] = {}

    def find(self, kinds: Operands) -> Function:
        """Return the kernel for operands of these kinds, which takes arrays of one shape and type, and floats.

        It returns None, and has written nothing, for what is not for it.
        """
        found = self._kernels.get(kinds)
        if found is None:
            with handlers_deferred():
                found = elementwise_slot.call(self.function, kinds, {}, self.written) or _decline
            self._kernels[kinds] = found
        return found


class ArithmeticKernel:
    """A function of two operands, add, subtract, multiply or divide, and the native function that takes its place.

    That computes arrays and numbers sooner than NumPy, with the same bits, and passes all else on to the function. So
    it need not depend on the operands alone when it comes: programs of few small arrays start without the compiler.
    """

    __slots__ = ("_calls", "_function", "call", "name")

    def __init__(self, name: str, function: Function) -> None:
        self.name = name
        self._function = function
        self._calls = 0
        self.call: Function = self._count_and_call

    def _count_and_call(self, x: Operand, y: Operand) -> Operand:
        sizes = [a.size for a in (x, y) if type(a) is ndarray]
        if sizes and kernel_provider.enabled:
            self._calls += 1
            if self._calls > MAX_CALLS_WITHOUT_KERNEL or max(sizes) >= MIN_ELEMENTS:
                self.call = self._function  # while the native function is loaded
                self.call = arithmetic_slot.call(self.name, self._function) or self._function
        return self._function(x, y)


# Python's operators, for gradient rules: they take tensors as well
ADD, MULTIPLY, DIVIDE = (
    ArithmeticKernel(*each)
    for each in (("add", operator.add), ("multiply", operator.mul), ("divide", operator.truediv))
)


def with_unary_kernel(function: Function) -> tuple[Function, ElementwiseKernel]:
    """Let a kernel compute a NumPy function of one array; it is to be given the op as its `function`."""
    kernel = ElementwiseKernel(function)

    def find(x: Array) -> Array | None:
        return kernel.find((x,), {})

    def evaluate(x: Operand) -> Operand:
        if type(x) is ndarray and x.size >= MIN_ELEMENTS:
            native = kernel.of_arrays
            if native is None or not (kernel_provider.enabled and x.dtype in KERNEL_TYPES):
                native = find
            found = native(x)
            if found is not None:
                return found
        return function(x)

    return copy_names(evaluate, function), kernel


def with_binary_kernel(function: Function) -> tuple[Function, ElementwiseKernel]:
    """Let a kernel compute a NumPy function of two arrays; it is to be given the op as its `function`."""
    kernel = ElementwiseKernel(function)

    def evaluate(x: Operand, y: Operand) -> Operand:
        if type(x) is ndarray and x.size >= MIN_ELEMENTS:
            found = kernel.find((x, y), {})
            if found is not None:
                return found
        return function(x, y)

    return copy_names(evaluate, function), kernel


def copy_names(call: Function, function: Function) -> Function:
    """Give a function the identity and the parameters of the one that it calls."""
    call.__name__, call.__qualname__, call.__module__ = function.__name__, function.__qualname__, function.__module__
    call.__doc__ = function.__doc__
    return with_all_parameters_of(call, function)
