"""Derivatives of functions of tensors: products of a vector and a Jacobian or Hessian, and these whole."""

from __future__ import annotations

from typing import Any

from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.transforms.functional import inputs as texts
from adjoint.transforms.functional.inputs import (
    FUNCTION_RETURNS,
    MaybeTensors,
    Tensors,
    as_tuple,
    call_function,
    call_scalar_function,
    compute_vjp,
    fill_missing_with_zeros,
    prepare_inputs,
    prepare_vector,
    restore_structure,
)
from adjoint.transforms.functional.jacobian import (
    _construct_standard_basis_for,  # noqa: F401  PyTorch has it here too
    hessian,
    jacobian,
)
from adjoint.transforms.grad import zeros

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Inputs = Tensor | tuple[Tensor, ...]


def vjp(
    func: Function, inputs: Inputs, v: Inputs | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and vᵀJ, where J is the Jacobian of `func` there.

    `v` is like the outputs; a lone scalar needs none. With `create_graph` the results lead back to `inputs` and `v`,
    otherwise they are detached. The product is zeros for an input that no output depends on, or with `strict`
    RuntimeError.
    """
    with enable_grad():
        call = _Differentiation("vjp", inputs, create_graph, strict)
        ys, several = call_function(func, call.xs, strict, "vjp")
        vector = prepare_vector(v, ys, several, create_graph, "vjp", FUNCTION_RETURNS)
        products = call.vjp(ys, call.xs, vector, create_graph, texts.UNUSED, texts.CONSTANT_JACOBIAN)
        return call.finish(ys, several, ys), call.finish(products, call.several, call.xs)


def jvp(
    func: Function, inputs: Inputs, v: Inputs | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and Jv, where J is the Jacobian of `func` there; `v` is like the inputs.

    It runs reverse mode twice: g ↦ gᵀJ is linear in g, and its own gradient, weighted by v, is Jv. `create_graph` and
    `strict` are those of `vjp`.
    """
    with enable_grad():
        call = _Differentiation("jvp", inputs, create_graph, strict)
        vector = prepare_vector(v, call.xs, call.several, create_graph, "jvp")
        ys, several = call_function(func, call.xs, strict, "jvp")
        weights = tuple(zeros(y).requires_grad_(y.requires_grad) for y in ys)
        gradients = call.vjp(ys, call.xs, weights, True, texts.UNUSED, texts.CONSTANT_GRADIENT)
        products = call.vjp(gradients, weights, vector, create_graph, texts.UNUSED_WEIGHT, texts.CONSTANT_JACOBIAN)
        return call.finish(ys, several, ys), call.finish(products, several, ys)


def vhp(
    func: Function, inputs: Inputs, v: Inputs | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and vᵀH, where H is the Hessian of `func` there; `v` is like the inputs.

    `create_graph` and `strict` are those of `vjp`.

    Raises: RuntimeError if `func` returns anything but one tensor of one element.
    """
    with enable_grad():
        call = _Differentiation("vhp", inputs, create_graph, strict)
        vector = prepare_vector(v, call.xs, call.several, create_graph, "vhp")
        y, slopes = call.gradient(func)
        products = call.vjp(slopes, call.xs, vector, create_graph, texts.UNUSED_BY_SLOPE, texts.CONSTANT_HESSIAN)
        return call.finish((y,), False, (y,)), call.finish(products, call.several, call.xs)


def hvp(
    func: Function, inputs: Inputs, v: Inputs | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return func(inputs) and Hv, where H is the Hessian of `func` there; `v` is like the inputs.

    It runs reverse mode three times. `vhp` gives the same with one pass less, since H is symmetric where it is
    continuous. The arguments and errors are those of `vhp`.
    """
    with enable_grad():
        call = _Differentiation("hvp", inputs, create_graph, strict)
        vector = prepare_vector(v, call.xs, call.several, create_graph, "hvp")
        y, slopes = call.gradient(func)
        weights = tuple(zeros(x).requires_grad_() for x in call.xs)
        curvatures = call.vjp(slopes, call.xs, weights, True, texts.UNUSED, texts.CONSTANT_CURVATURE)
        products = call.vjp(
            curvatures, weights, vector, create_graph, texts.UNUSED_BY_CURVATURE, texts.CONSTANT_HESSIAN
        )
        return call.finish((y,), False, (y,)), call.finish(products, call.several, call.xs)


class _Differentiation:
    """The inputs and options of one call of a function above."""

    def __init__(self, name: str, inputs: object, create_graph: bool, strict: bool) -> None:
        self.name, self.create_graph, self.strict = name, create_graph, strict
        xs, self.several = as_tuple(inputs, "inputs", name)
        self.xs = prepare_inputs(xs, create_graph)

    def vjp(
        self, ys: MaybeTensors, xs: Tensors, weights: Tensors | None, create_graph: bool, missing: str, constant: str
    ) -> MaybeTensors:
        """Return the products of `compute_vjp`; if `strict`, `missing` and `constant` are what it raises."""
        return compute_vjp(ys, xs, weights, create_graph, (missing, constant) if self.strict else None)

    def gradient(self, func: Function) -> tuple[Tensor, MaybeTensors]:
        """Return the value of a scalar function, and its gradient as something to differentiate again."""
        y = call_scalar_function(func, self.xs, self.strict, self.name)
        return y, self.vjp((y,), self.xs, None, True, texts.UNUSED, texts.CONSTANT_SLOPE)

    def finish(self, tensors: MaybeTensors, several: bool, like: Tensors) -> Tensor | tuple[Tensor, ...]:
        """Return tensors as the caller gets them, with zeros like those of `like` where one is None."""
        return restore_structure(fill_missing_with_zeros(tensors, like), several, self.create_graph)
