"""The families of ops. Each decorator turns a NumPy function with rules into a function of tensors that records itself.

The calls for one and two operands are written out, without loops, `isinstance` chains or `*args`. The plain code is
`apply`, which gives the same results (tests/core/op/test_families.py) and takes ten times as long: a recorded multiply
of 16 elements takes 1.4 µs written out (benchmarks/overhead.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import real_type
from adjoint.core.op.apply import NO_PARAMS, apply
from adjoint.core.op.call_template import (
    can_write_call,
    has_no_operands,
    make_call,
    make_source_call,
    make_variadic_call,
)
from adjoint.core.op.elementwise_kernels import ArithmeticKernel, with_binary_kernel, with_unary_kernel
from adjoint.core.op.evaluation import evaluate
from adjoint.core.op.movement_call import make_movement_call
from adjoint.core.op.op import Op
from adjoint.core.op.op_errors import (
    EVALUATION_ERRORS,
    describe_misplaced_value,
    make_kind_check,
    refuse_numbers,
    retry_ignoring_fp_errors,
    with_operand_check,
)
from adjoint.core.op.recorder import allocate_tensor, record_output
from adjoint.core.op.spec import Spec, broadcast_shapes
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.external_aliases import copy_if_aliased, externally_aliased
from adjoint.core.tensor.storage import is_inference
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand

ndarray = np.ndarray
BOOL = np.dtype(np.bool_)
int64, INT64 = np.int64, np.dtype(np.int64)
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
NUMBERS = frozenset({int, float})  # which take the type of a floating tensor
NO_TENSORS = frozenset({str, bytes, list, tuple, dict})  # of which NumPy would make arrays, or fail
OPERANDS = (Tensor, int, float, bool, complex, np.ndarray, np.generic)
out_slot: Slot[Function] = Slot("write_out")  # a result, into the tensors of `out=`
Declaration = Callable[[Function], Function]
FACETS = {
    "node", "effect", "composite", "promotion", "scalar", "index", "combine", "identity", "linear", "grad_slice",
    "where_mask", "batch_leading", "native", "holomorphic", "preserves_strides", "raises",
}  # fmt: skip


def _make_op(function: Function, *, family: str, spec: Callable[..., Spec], **facets: Any) -> Op:
    """Make an op with these facets, of which those not in `FACETS` are its gradient rules: `dx=`, `dy=`, …."""
    rules = {k: v for k, v in facets.items() if k not in FACETS}
    others = {k: v for k, v in facets.items() if k in FACETS}
    return Op(function, rules, call=apply, family=family, spec=spec, **others)


def _elementwise_spec(bool_result: bool, check: Function, real_result: bool = False) -> Callable[..., Spec]:
    def spec(*operands: Operand) -> Spec:
        check(operands)
        shape = operands[0].shape if len(operands) == 1 else broadcast_shapes(*[o.shape for o in operands])
        dtype = operands[0].dtype
        return Spec(shape, BOOL if bool_result else real_type(dtype) if real_result else dtype)

    return spec


def unary(
    *,
    promotion: str | None = None,
    bool_result: bool = False,
    real_result: bool = False,
    scalar: str | Function | None = None,
    unsupported_kinds: str = "",
    kernel: bool = False,
    **facets: Any,
) -> Declaration:
    """Declare an element-wise f(x). `promotion="float"` converts integers to floats, `"number"` bools to integers.

    `bool_result`: the result is bool. `real_result`: of complex numbers it is real. `unsupported_kinds`: the kinds of
    elements, as NumPy has them, that f is not defined for. `kernel`: a kernel computes arrays that are not small.
    """

    def declare(function: Function) -> Function:
        function, native = with_unary_kernel(function) if kernel else (function, None)
        check = make_kind_check(function.__name__, unsupported_kinds)
        op = _make_op(
            with_operand_check(function, check) if unsupported_kinds else function,
            family="unary",
            spec=_elementwise_spec(bool_result, check, real_result),
            promotion=promotion,
            scalar=scalar,
            **facets,
        )
        differentiable = op.rules[0] is not None
        keeps_x, keeps_out = "x" in op.needs[0], "out" in op.needs[0]
        any_kind = promotion is None and not unsupported_kinds and op.native is None
        quick = "" if op.native is not None else "fiub" if promotion is None and unsupported_kinds == "c" else "f"
        compute = op.evaluate if "f" in unsupported_kinds else function

        def call(input: Operand, out: Tensor | None = None) -> Tensor:
            if out is not None:
                return out_slot.call(out, call, input)
            if type(input) is Tensor or isinstance(input, Tensor):
                xd, xn = input.array, input.node
            else:
                xd, xn = input, None
            if (
                type(xd) is not ndarray
                or not (any_kind or xd.dtype.kind in quick)
                or (nondefault.count and mode.is_intercepted)
                or (xn is not None and not differentiable and not bool_result)
            ):
                if xd is None or type(xd) in NO_TENSORS:
                    raise TypeError(describe_misplaced_value(op.name, "input", 1, xd))
                return apply(op, (input,), NO_PARAMS)
            try:
                data = compute(xd)
            except (RuntimeWarning, FloatingPointError):
                data = evaluate(op, (xd,), NO_PARAMS)
            if type(data) is not ndarray:
                data = np.asarray(data)
            if xn is None or bool_result or (nondefault.count and not mode.recording):
                out = allocate_tensor()
                out.array = data
                out.node = out._grad = out.storage_ = None
                if nondefault.count:
                    cut = mode.detach_record
                    if cut is not None:
                        out._detach_record = cut
                        out.storage_ = cut.memory
                return out
            if keeps_x and externally_aliased and input.storage_ is not None:
                xd = copy_if_aliased(xd)
            saved = (xd if keeps_x else None, data if keeps_out else None) if keeps_x or keeps_out else None
            return record_output(data, op, (xn,), None, None, saved)

        if native is not None:
            native.function = call
        return publish(call, op, kernel=native)

    return declare


def binary(
    *,
    promotion: str = "common",
    bool_result: bool = False,
    scalar: str | Function | None = None,
    ufunc: np.ufunc | None = None,
    unsupported_kinds: str = "",
    refuse: Function | None = None,
    kernel: bool = False,
    **facets: Any,
) -> Declaration:
    """Declare an element-wise function f(x, y), with broadcasting and promotion to a common type.

    `ufunc`: the NumPy function to which f is equal, one of those for which there is an `ArithmeticKernel`.
    `unsupported_kinds`: the kinds of elements, as NumPy has them, that f is not defined for. `refuse`: what raises for
    operands of Python's operator as they are given, before their promotion. `kernel`: a kernel computes arrays that are
    not small.
    """

    def declare(function: Function) -> Function:
        function, native = with_binary_kernel(function) if kernel else (function, None)
        check = make_kind_check(function.__name__, unsupported_kinds)
        op = _make_op(
            with_operand_check(function, check) if unsupported_kinds else function,
            family="binary",
            spec=_elementwise_spec(bool_result, check),
            promotion=promotion,
            scalar=scalar,
            **facets,
        )
        (needs_dx, needs_dy), (has_dx, has_dy) = op.needs, (rule is not None for rule in op.rules)
        dx_x, dx_y, dx_out = "x" in needs_dx, "y" in needs_dx, "out" in needs_dx
        dy_x, dy_y, dy_out = "x" in needs_dy, "y" in needs_dy, "out" in needs_dy
        any_x, any_y, any_out = dx_x or dy_x, dx_y or dy_y, dx_out or dy_out
        lacks_rules = not (has_dx and has_dy)
        saves = bool(needs_dx or needs_dy)
        any_kind = promotion == "common" and not unsupported_kinds
        # kinds of elements that become floats beside floats
        converted = "".join(set("biu").difference(unsupported_kinds)) if promotion == "common" else ""
        quick = "".join(set("fiubc").difference(unsupported_kinds)) if promotion == "common" else "f"
        takes_int = "i" in quick
        compute = op.evaluate if "f" in unsupported_kinds else function
        ufunc_kernel = None if ufunc is None else ArithmeticKernel(ufunc.__name__, ufunc)

        def apply_general(input: Operand, other: Operand) -> Tensor:
            return apply(op, (input, other), NO_PARAMS)

        def call_as_operator(input: Tensor, other: Operand) -> Operand:
            if refuse is not None:
                refuse(input, other)
            return apply_general(input, other) if isinstance(other, OPERANDS) else NotImplemented

        def make_call(otherwise: Function, left: bool = True, right: bool = True) -> Function:
            """Make the call. It passes to `otherwise` whatever it does not treat itself: numbers that may not be `left`
            or `right`, and operands that need promotion.
            """

            def call(input: Operand, other: Operand, out: Operand = None) -> Tensor:
                if out is not None:
                    return out_slot.call(out, call, input, other)
                if type(input) is Tensor or isinstance(input, Tensor):
                    xd, xn = input.array, input.node
                else:
                    xd, xn = input, None
                if type(other) is Tensor or isinstance(other, Tensor):
                    yd, yn = other.array, other.node
                else:
                    yd, yn = other, None
                # the general call promotes, traces, and complains
                if nondefault.count and mode.is_intercepted:
                    return otherwise(input, other)
                if type(xd) is ndarray:
                    dtype = xd.dtype
                    if type(yd) is ndarray:
                        if dtype is not yd.dtype:
                            # a number does not decide the type; bare arrays are gradients
                            if not (xd.ndim and yd.ndim) or xd is input or yd is other:
                                return otherwise(input, other)
                            if dtype.kind == "f" and yd.dtype.kind in converted:
                                yd = yd.astype(dtype)
                            elif yd.dtype.kind == "f" and dtype.kind in converted:
                                dtype = yd.dtype
                                xd = xd.astype(dtype)
                            else:
                                return otherwise(input, other)
                        if not (any_kind or dtype.kind in quick):
                            return otherwise(input, other)
                    elif not right or type(yd) not in NUMBERS:
                        return otherwise(input, other)
                    elif dtype.kind != "f":
                        if not (takes_int and dtype is INT64 and type(yd) is int and MIN_INT64 <= yd <= MAX_INT64):
                            return otherwise(input, other)
                        yd = int64(yd)
                elif type(yd) is not ndarray or not left or type(xd) not in NUMBERS:
                    return otherwise(input, other)
                else:
                    dtype = yd.dtype
                    if dtype.kind != "f":
                        if not (takes_int and dtype is INT64 and type(xd) is int and MIN_INT64 <= xd <= MAX_INT64):
                            return otherwise(input, other)
                        xd = int64(xd)
                if lacks_rules:
                    if bool_result:  # truths have no gradient
                        xn = yn = None
                    elif (xn is not None and not has_dx) or (yn is not None and not has_dy):
                        return otherwise(input, other)
                try:
                    data = compute(xd, yd) if ufunc_kernel is None else ufunc_kernel.call(xd, yd)
                except EVALUATION_ERRORS as error:
                    data = retry_ignoring_fp_errors(op, (xd, yd), NO_PARAMS, error)
                if type(data) is not ndarray:
                    data = np.asarray(data)
                if (xn is None and yn is None) or (nondefault.count and not mode.recording):
                    out = allocate_tensor()
                    out.array = data
                    out.node = out._grad = out.storage_ = None
                    if nondefault.count:
                        cut = mode.detach_record
                        if cut is not None:
                            out._detach_record = cut
                            out.storage_ = cut.memory
                    return out
                if (
                    (xn is None or yn is None)
                    and nondefault.inference_used
                    and is_inference(input if xn is None else other)
                ):
                    return otherwise(input, other)
                if saves and externally_aliased:
                    if xd is not input and input.storage_ is not None:
                        xd = copy_if_aliased(xd)
                    if yd is not other and other.storage_ is not None:
                        yd = copy_if_aliased(yd)
                if not saves:
                    saved = None
                elif xn is None:
                    if xd is input and dy_x and type(xd) is ndarray:
                        xd = xd.copy()  # the user's, who may write it
                    saved = (xd if dy_x else None, yd if dy_y else None, data if dy_out else None)
                elif yn is None:
                    if type(yd) is ndarray and yd is other and dx_y:
                        yd = yd.copy()
                    saved = (xd if dx_x else None, yd if dx_y else None, data if dx_out else None)
                else:
                    saved = (xd if any_x else None, yd if any_y else None, data if any_out else None)
                return record_output(data, op, (xn, yn), None, None, saved)

            return call

        def restrict_scalars(numbers: str) -> Function:
            """Return the call in which a Python number may stand for one operand, among those in `numbers`."""

            def check_and_apply(input: Operand, other: Operand) -> Tensor:
                refuse_numbers(op.name, op.inputs, numbers, input, other)
                return apply_general(input, other)

            return copy_identity(make_call(check_and_apply, "x" in numbers, "y" in numbers), op)

        operator = make_call(call_as_operator)
        whole = make_call(apply_general)
        if native is not None:
            native.function = whole
        return publish(whole, op, operator=operator, restrict_scalars=restrict_scalars, ufunc=ufunc)

    return declare


def movement_op(
    *,
    spec: Callable[..., Spec],
    index: Function | None = None,
    view: bool = True,
    method: Function | None = None,
    **facets: Any,
) -> Declaration:
    """Declare f(x, **params), which moves elements without computing any.

    `index` maps the loads of a fused kernel; `view`: the NumPy function returns a view where it can. `method`: the
    method of NumPy's arrays that f calls with its first parameter. It is called directly, which saves 90 ns a call.
    """

    def declare(function: Function) -> Function:
        op = _make_op(function, family="movement", spec=spec, index=index, linear=True, **facets)
        return publish(make_movement_call(op, function, view, method), op, view=view, method=method)

    return declare


def primitive(*, spec: Callable[..., Spec], family: str = "call", **facets: Any) -> Declaration:
    """Declare any other op: tensors by position, configuration by keyword."""

    def declare(function: Function) -> Function:
        op = _make_op(function, family=family, spec=spec, **facets)
        if has_no_operands(op):
            return publish(make_source_call(op), op)
        if not can_write_call(op):
            return publish(op.public, op)
        return publish(make_variadic_call(op) if op.variadic else make_call(op), op)

    return declare


def with_eager_fast_path(*, composite: Function, **facets: Any) -> Declaration:
    """Declare a function with a fast eager evaluation; traced steps take its `composite` instead.

    The gradient rules are those declared here in both cases.
    """

    def no_spec(*_: object, **__: object) -> Spec:
        raise AssertionError("a fused function is never traced itself")

    return primitive(spec=no_spec, family="fused", composite=composite, **facets)


def restrict_scalars(numbers: str, *calls: Function) -> tuple[Function, ...]:
    """Return calls of binary ops in which Python numbers may stand only for the operands in `numbers`."""
    return tuple(vars(call)["restrict_scalars"](numbers) for call in calls)


def publish(call: Function, op: Op, **attributes: object) -> Function:
    """Make `call` the op's public function, with the identity of the declared one."""
    op.public = published = copy_identity(call, op)
    vars(call).update(attributes)
    return published


def copy_identity(call: Function, op: Op) -> Function:
    """Give `call` the name and docstring of the declared function, and its op."""
    declared = op.evaluate
    call.__name__ = call.__qualname__ = declared.__name__
    call.__doc__, call.__module__ = declared.__doc__, declared.__module__
    vars(call)["op"] = op
    return call
