"""Inputs and results of the functions of `autograd.functional`: checks, strict mode, structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.autograd.backward import grad
from adjoint.core.tensor.tensor import Tensor, detach
from adjoint.core.typing import Function
from adjoint.ops.movement.movement import reshape
from adjoint.transforms.grad import zeros

Tensors = tuple[Tensor, ...]
MaybeTensors = tuple[Tensor | None, ...]
INPUT_IS, FUNCTION_RETURNS = "input to the user-provided function is", "user-provided function returns"


def as_tuple(given: Any, what: str, called: str) -> tuple[Tensors, bool]:
    """Return `given` as a tuple of tensors, and whether it was one. Raises TypeError for anything else."""
    several = isinstance(given, tuple)
    tensors: Tensors = given if several else (given,)
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            where = f"the value at index {i}" if several else f"the given {what}"
            raise TypeError(
                f"The {what} given to {called} must be either a Tensor or a tuple of Tensors but {where} has type "
                f"{type(tensor)}."
            )
    return tensors, several


def call_function(func: Function, xs: Tensors, strict: bool, called: str) -> tuple[Tensors, bool]:
    """Return the outputs of `func` as a tuple, and whether they were one."""
    ys, several = as_tuple(func(*xs), "outputs of the user-provided function", called)
    if strict:
        check_strict(ys, NO_HISTORY, NO_HISTORY)
    return ys, several


def call_scalar_function(func: Function, xs: Tensors, strict: bool, called: str) -> Tensor:
    """Return the output of `func`. Raises RuntimeError unless it is one tensor of one element."""
    ys, several = call_function(func, xs, strict, called)
    if several:
        raise RuntimeError(f"The function given to {called} should return a single Tensor")
    if not is_scalar(ys):
        raise RuntimeError(f"The Tensor returned by the function given to {called} should contain a single element")
    return ys[0]


def prepare_inputs(given: Tensors, create_graph: bool, requires_grad: bool = True) -> Tensors:
    """Return the same values as new tensors.

    The function may reach the originals by another way, which is not differentiated. With `create_graph` results must
    lead back to the originals: these are viewed, not detached. Subclasses are asked by their methods, and may stay what
    they are.
    """
    tensors: list[Tensor] = []
    for x in given:
        plain = type(x) is Tensor
        if create_graph and x.requires_grad:
            tensors.append(reshape(x, shape=x.array.shape) if plain else x.view_as(x))
        else:
            tensors.append((detach(x) if plain else x.detach()).requires_grad_(requires_grad))
    return tuple(tensors)


def prepare_vector(
    v: Tensor | tuple[Tensor, ...] | None,
    like: Tensors,
    several: bool,
    create_graph: bool,
    called: str,
    subject: str = INPUT_IS,
) -> Tensors | None:
    """Return `v` as new tensors; None, which stands for 1, if it is None and `like` is a scalar.

    Raises: RuntimeError unless `v` has as many tensors as `like`, of the same shapes.
    """
    if v is None:
        if is_scalar(like):
            return None
        raise RuntimeError(f"The vector v can only be None if the {subject} a single Tensor with a single element.")
    vector = prepare_inputs(as_tuple(v, "v", called)[0], create_graph, requires_grad=False)
    if len(vector) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(vector)}."
            if several
            else "The given v should contain a single Tensor."
        )
    for i, (entry, x) in enumerate(zip(vector, like, strict=True)):
        if entry.array.shape != x.array.shape:
            which = f"Entry {i} in v" if several else "v"
            raise RuntimeError(f"{which} has invalid size: should be {x.shape} but got {entry.shape}.")
    return vector


def is_scalar(tensors: Tensors) -> bool:
    """Return whether it is one tensor of one element."""
    return len(tensors) == 1 and tensors[0].numel() == 1


def compute_vjp(
    outputs: MaybeTensors,
    inputs: Tensors,
    weights: Sequence[Tensor | None] | None,
    create_graph: bool,
    strict_texts: tuple[str, str] | None = None,
    retain_graph: bool | None = None,
) -> MaybeTensors:
    """Return Σ weightᵀ ∂output/∂input for each input; None where no output depends on it.

    `strict_texts`: error texts for a product that is None, and with `create_graph` for one without history.
    """
    pairs = zip(outputs, (None,) * len(outputs) if weights is None else weights, strict=True)
    seeds = [(y, g) for y, g in pairs if y is not None and y.requires_grad]
    xs = [x for x in inputs if x.requires_grad]
    products: MaybeTensors = (None,) * len(inputs)
    if seeds and xs:
        ys, gs = zip(*seeds, strict=True)
        gradients = iter(grad(ys, xs, gs, retain_graph, create_graph, allow_unused=True))
        products = tuple(next(gradients) if x.requires_grad else None for x in inputs)
    if strict_texts is not None:
        check_strict(products, strict_texts[0], strict_texts[1] if create_graph else None)
    return products


def fill_missing_with_zeros(tensors: MaybeTensors, like: Tensors) -> Tensors:
    """Return `tensors`, with zeros where one is None."""
    return tuple(zeros(x) if tensor is None else tensor for tensor, x in zip(tensors, like, strict=True))


def restore_structure(tensors: Sequence[Tensor], several: bool, create_graph: bool) -> Tensor | tuple[Tensor, ...]:
    """Return the tensors in the structure that the caller used, detached without `create_graph`."""
    results = tuple(tensors if create_graph else map(detach, tensors))
    return results if several else results[0]


# In the first {i} is the number of an output, in the others of an input; UNUSED_BY_OUTPUT names both.
NO_HISTORY = (
    "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode."
)
UNUSED = "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode."
UNUSED_BY_OUTPUT = (
    "Output {output} of the user-provided function is independent of input {i}. This is not allowed in strict mode."
)
CONSTANT_GRADIENT = (
    "The gradient with respect to input {i} is independent of the inputs of the user-provided function. This is not "
    "allowed in strict mode."
)
CONSTANT_SLOPE = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {i} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example)."
)
CONSTANT_CURVATURE = (
    "The hessian of the user-provided function with respect to input {i} is independent of the input. This is not "
    "allowed in strict mode. You should ensure that your function is thrice differentiable and that the hessian "
    "depends on the inputs."
)
UNUSED_WEIGHT = (
    "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the double "
    "backward trick to compute forward mode gradients. This is not allowed in strict mode."
)
UNUSED_BY_SLOPE = (
    "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode."
)
UNUSED_BY_CURVATURE = (
    "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. This is not allowed "
    "in strict mode as it prevents from using the double backward trick to replace forward mode AD."
)
CONSTANT_JACOBIAN = (
    "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode when "
    "create_graph=True."
)
CONSTANT_HESSIAN = (
    "The hessian of the user-provided function is independent of input {i}. This is not allowed in strict mode when "
    "create_graph=True."
)


def check_strict(tensors: MaybeTensors, missing: str, unrecorded: str | None = None) -> None:
    """Raise RuntimeError `missing` for the first tensor that is None, `unrecorded` for one without history."""
    for i, tensor in enumerate(tensors):
        if tensor is None:
            raise RuntimeError(missing.format(i=i))
        if unrecorded is not None and not tensor.requires_grad:
            raise RuntimeError(unrecorded.format(i=i))
