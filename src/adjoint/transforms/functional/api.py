"""Derivatives of functions of tensors: products of a vector and a Jacobian or Hessian, and these whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.tensor.tensor import Tensor
from adjoint.transforms.functional import inputs as complaint
from adjoint.transforms.functional.inputs import (
    OUTPUTS,
    Tensors,
    as_tuple,
    compute_vjp,
    fill_missing_with_zeros,
    is_scalar,
    prepare_inputs,
    prepare_vector,
    restore_structure,
    zeros,
)
from adjoint.transforms.functional.jacobian import (
    _construct_standard_basis_for,  # noqa: F401  PyTorch has it here too
    hessian,
    jacobian,
)

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

TensorOrTuple = Tensor | tuple[Tensor, ...]


def vjp(
    func: Callable[..., Any],
    inputs: TensorOrTuple,
    v: TensorOrTuple | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """func(inputs) and vᵀJ, J the Jacobian of `func` there; `v` like the outputs, of which a lone scalar needs none.

    The results lead back to `inputs` and `v` with `create_graph`, and are detached otherwise. Where the outputs do not
    depend on an input the product is zeros, or with `strict` RuntimeError.
    """
    with enable_grad():
        xs, several = as_tuple(inputs, "inputs", "vjp")
        xs = prepare_inputs(xs, create_graph)
        ys, outputs_several = as_tuple(func(*xs), OUTPUTS, "vjp")
        if strict:
            complaint.check_strict(ys, complaint.NO_HISTORY, complaint.NO_HISTORY)
        if v is not None:
            vector: Tensors | None = prepare_vector(v, ys, outputs_several, create_graph, "vjp")
        elif is_scalar(ys):
            vector = None
        else:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
        found = compute_vjp(ys, xs, vector, create_graph)
        if strict:
            complaint.check_strict(found, complaint.UNUSED, complaint.CONSTANT_JACOBIAN if create_graph else None)
        products = fill_missing_with_zeros(found, xs)
    return restore_structure(ys, outputs_several, create_graph), restore_structure(products, several, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: TensorOrTuple,
    v: TensorOrTuple | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """func(inputs) and Jv, J the Jacobian of `func` there; `v` like the inputs, of which a lone scalar needs none.

    By reverse mode twice: g ↦ gᵀJ is linear in g, and its own gradient, weighted by v, is Jv. `create_graph` and
    `strict` as for `vjp`.
    """
    with enable_grad():
        xs, several = as_tuple(inputs, "inputs", "jvp")
        xs = prepare_inputs(xs, create_graph)
        vector = _vector_for_inputs(v, xs, several, create_graph, "jvp")
        ys, outputs_several = as_tuple(func(*xs), OUTPUTS, "jvp")
        if strict:
            complaint.check_strict(ys, complaint.NO_HISTORY, complaint.NO_HISTORY)
        weights = tuple(zeros(y).requires_grad_(y.requires_grad) for y in ys)
        gradients = compute_vjp(ys, xs, weights, create_graph=True)
        if strict:
            complaint.check_strict(gradients, complaint.UNUSED, complaint.CONSTANT_GRADIENT)
        found = compute_vjp(gradients, weights, vector, create_graph)
        if strict:
            complaint.check_strict(
                found, complaint.UNUSED_WEIGHT, complaint.CONSTANT_JACOBIAN if create_graph else None
            )
        products = fill_missing_with_zeros(found, ys)
    return restore_structure(ys, outputs_several, create_graph), restore_structure(
        products, outputs_several, create_graph
    )


def vhp(
    func: Callable[..., Any],
    inputs: TensorOrTuple,
    v: TensorOrTuple | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """func(inputs), one element, and vᵀH, H the Hessian of `func` there; `v` like the inputs.

    `create_graph` and `strict` as for `vjp`; RuntimeError if `func` returns anything but one tensor of one element.
    """
    with enable_grad():
        at = _record_slope(func, inputs, v, create_graph, strict, "vhp")
        found = compute_vjp(at.slopes, at.xs, at.vector, create_graph)
        if strict:
            complaint.check_strict(
                found, complaint.UNUSED_BY_SLOPE, complaint.CONSTANT_HESSIAN if create_graph else None
            )
        products = fill_missing_with_zeros(found, at.xs)
    return restore_structure((at.y,), False, create_graph), restore_structure(products, at.several, create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: TensorOrTuple,
    v: TensorOrTuple | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """func(inputs), one element, and Hv, H the Hessian of `func` there; `v` like the inputs.

    By reverse mode thrice; `vhp` gives the same with one pass less, as H is symmetric where it is continuous. Arguments
    and errors as for `vhp`.
    """
    with enable_grad():
        at = _record_slope(func, inputs, v, create_graph, strict, "hvp")
        weights = tuple(zeros(x).requires_grad_() for x in at.xs)
        curvatures = compute_vjp(at.slopes, at.xs, weights, create_graph=True)
        if strict:
            complaint.check_strict(curvatures, complaint.UNUSED, complaint.CONSTANT_CURVATURE)
        found = compute_vjp(curvatures, weights, at.vector, create_graph)
        if strict:
            complaint.check_strict(
                found, complaint.UNUSED_BY_CURVATURE, complaint.CONSTANT_HESSIAN if create_graph else None
            )
        products = fill_missing_with_zeros(found, at.xs)
    return restore_structure((at.y,), False, create_graph), restore_structure(products, at.several, create_graph)


class _RecordedSlope(NamedTuple):
    xs: Tensors
    several: bool
    vector: Tensors | None
    y: Tensor
    slopes: tuple[Tensor | None, ...]  # ∂y/∂x, recorded


def _record_slope(func: Any, inputs: Any, v: Any, create_graph: bool, strict: bool, called: str) -> _RecordedSlope:
    """The function's value, and its gradient as something to differentiate again."""
    xs, several = as_tuple(inputs, "inputs", called)
    xs = prepare_inputs(xs, create_graph)
    vector = _vector_for_inputs(v, xs, several, create_graph, called)
    ys, outputs_several = as_tuple(func(*xs), OUTPUTS, called)
    if strict:
        complaint.check_strict(ys, complaint.NO_HISTORY, complaint.NO_HISTORY)
    if outputs_several:
        raise RuntimeError(f"The function given to {called} should return a single Tensor")
    if not is_scalar(ys):
        raise RuntimeError(f"The Tensor returned by the function given to {called} should contain a single element")
    slopes = compute_vjp(ys, xs, create_graph=True)
    if strict:
        complaint.check_strict(slopes, complaint.UNUSED, complaint.CONSTANT_SLOPE)
    return _RecordedSlope(xs, several, vector, ys[0], slopes)


def _vector_for_inputs(v: Any, xs: Tensors, several: bool, create_graph: bool, called: str) -> Tensors | None:
    if v is not None:
        return prepare_vector(v, xs, several, create_graph, called)
    if not is_scalar(xs):
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single "
            "element."
        )
    return None
