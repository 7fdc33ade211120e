"""The call of an op with a fixed number of inputs and with parameters, written out like those of `families`.

The text of the call is generated, once for each number of inputs. The plain code is `apply`, which gives the same
results; a recorded call of two inputs takes it 2.5 times as long. `computed` is the result, if the caller has it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.dtype.dtype import FLOATING, default
from adjoint.core.op.apply import apply
from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.op.evaluation import compute
from adjoint.core.op.op_errors import EVALUATION_ERRORS, retry_ignoring_fp_errors
from adjoint.core.op.recorder import allocate_tensor, record_output, wrap_unrecorded
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.external_aliases import copy_if_aliased, externally_aliased
from adjoint.core.tensor.storage import is_inference
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

INPUT_NAMES = "abcdef"
NAMES: dict[str, Operand] = {
    "EVALUATION_ERRORS": EVALUATION_ERRORS,
    "FLOATING": FLOATING,
    "Tensor": Tensor,
    "apply": apply,
    "asarray": np.asarray,
    "compute": compute,
    "default": default,
    "externally_aliased": externally_aliased,
    "is_inference": is_inference,
    "kernel_provider": kernel_provider,
    "mode": mode,
    "ndarray": np.ndarray,
    "allocate_tensor": allocate_tensor,
    "nondefault": nondefault,
    "record_output": record_output,
    "retry_ignoring_fp_errors": retry_ignoring_fp_errors,
}

# `{…}` stands for the text of `_UNPACK` and the like, once for each input.
_CALL = """
def make(op, evaluated, rules, weight, masks, find_mask, copy_saved):
    def call({inputs}, computed=None, **params):
        modes = mode.__dict__ if nondefault.count else None
        if (default.narrow and computed is None) or (modes is not None and modes["alters_ops"]):
            return apply(op, ({inputs},), params)
{unpack}
        unrecorded = ({unrecorded}) or (modes is not None and not modes["recording"])
        if not unrecorded and nondefault.inference_used and ({mixed}):
            return apply(op, ({inputs},), params)
        if computed is not None:
            data = computed
        elif weight and ({worth}):
            data = compute(op, ({arrays},), params)
        else:
            try:
                data = evaluated({arrays}, **params)
            except EVALUATION_ERRORS as error:
                data = retry_ignoring_fp_errors(op, ({arrays},), params, error)
            if type(data) is not ndarray:
                data = asarray(data)
        if unrecorded or data.dtype.kind not in FLOATING:
            out = allocate_tensor()
            out.array = data
            out.node = out._grad = out.storage_ = None
            if modes is not None and modes["detach_record"] is not None:
                out._detach_record = modes["detach_record"]
                out.storage_ = out._detach_record.memory
            return out
        wanting = {wanting}
        mask = masks.get(wanting)
        if mask is None:
            mask = masks[wanting] = find_mask(wanting)
        saved = ({saved}, data if mask[-1] else None) if mask else None
        if saved is not None and ({own} or (externally_aliased and ({shared}))):
            saved = copy_saved(({inputs},), saved)
        shapes = ({shapes},) if op.saves_shapes else None
        return record_output(data, op, ({nodes},), params or None, shapes, saved)

    return call
"""
_UNPACK = """
        if type({x}) is Tensor or isinstance({x}, Tensor):
            {x}_array, {x}_node = {x}.array, {x}.node
            if type({x}_array) is not ndarray or ({x}_node is not None and rules[{i}] is None):
                return apply(op, ({inputs},), params)
        elif {x} is None or type({x}) is ndarray:
            {x}_array, {x}_node = {x}, None
        else:
            return apply(op, ({inputs},), params)"""


def make_call(op: Op, inputs: int | None = None) -> Callable[..., Tensor]:
    """Make the call of an op that promotes nothing and has no effect; a variadic one is called with so many inputs."""
    count, masks = len(op.inputs) if inputs is None else inputs, dict[int, tuple[bool, ...]]()
    rules = tuple([op.rule(i) for i in range(count)])
    weight = 0.0 if op.native is None else math.inf if callable(op.native.weight) else op.native.weight

    def find_mask(wanting: int) -> tuple[bool, ...]:
        return op.saved_mask(tuple([bool(wanting >> i & 1) for i in range(count)])) or ()

    function: Function = _compile_maker(count)(op, op.evaluate, rules, weight, masks, find_mask, _copy_saved)
    return function


def make_variadic_call(op: Op) -> Callable[..., Tensor]:
    """Make the call of a variadic op that promotes nothing and has no effect: a call for each number of inputs."""
    calls: dict[int, Callable[..., Tensor]] = {}

    def call(*inputs: Operand, **params: object) -> Tensor:
        found = calls.get(len(inputs))
        if found is None:
            if not 0 < len(inputs) <= len(INPUT_NAMES):
                return apply(op, inputs, params)
            found = calls[len(inputs)] = make_call(op, len(inputs))
        return found(*inputs, **params)

    return call


def make_source_call(op: Op) -> Callable[..., Tensor]:
    """Make the call of an op without inputs, such as a draw: it evaluates and wraps, for there is nothing to record."""
    evaluated = op.evaluate

    def call(**params: object) -> Tensor:
        if default.narrow or (nondefault.count and (mode.alters_ops or nondefault.meta_tensors)):
            return apply(op, (), params)
        try:
            data = evaluated(**params)
        except EVALUATION_ERRORS as error:
            data = retry_ignoring_fp_errors(op, (), params, error)
        return wrap_unrecorded(data if type(data) is np.ndarray else np.asarray(data))

    return call


def has_no_operands(op: Op) -> bool:
    """Return whether an op makes its result of parameters alone, in NumPy."""
    return not op.inputs and not op.variadic and op.promotion is None and op.native is None


def can_write_call(op: Op) -> bool:
    """Return whether the op's call can be written out."""
    return op.promotion is None and not op.effect and 0 < len(op.inputs) <= len(INPUT_NAMES)


@cache
def _compile_maker(count: int) -> Function:
    """Compile `make` for a number of inputs."""
    inputs = INPUT_NAMES[:count]

    def join(text: str, separator: str = ", ") -> str:
        return separator.join(text.format(x=x, i=i, inputs=", ".join(inputs)) for i, x in enumerate(inputs))

    text = _CALL.format(
        inputs=join("{x}"),
        unpack=join(_UNPACK, ""),
        arrays=join("{x}_array"),
        nodes=join("{x}_node"),
        unrecorded=join("{x}_node is None", " and "),
        mixed=join("({x}_node is None and is_inference({x}))", " or "),
        wanting=join("({x}_node is not None) << {i}", " | "),
        saved=join("{x}_array if mask[{i}] else None"),
        own=join("{x}_array is {x} and mask[{i}] and {x} is not None", " or "),
        shared=join("{x}_array is not {x} and {x}.storage_ is not None", " or "),
        shapes=join("() if {x}_array is None else {x}_array.shape"),
        worth=join("({x}_array is not None and {x}_array.size * weight >= kernel_provider.min_seconds)", " or "),
    )
    # a name in this folder: the call is no line of the user's
    code = compile(text, os.path.join(os.path.dirname(__file__), f"<call of {count} inputs>"), "exec")
    names = dict(NAMES)
    exec(code, names)
    make: Function = names["make"]
    return make


def _copy_saved(inputs: tuple[Operand, ...], saved: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
    """Copy what is saved of the users' own arrays, who may write them, and of memory that others see."""
    kept = list(saved)
    own = len(inputs)
    for i, value in enumerate(saved):
        if value is None:
            continue
        if i < own and value is inputs[i]:
            kept[i] = value.copy()
        elif externally_aliased:
            kept[i] = copy_if_aliased(value)
    return tuple(kept)
