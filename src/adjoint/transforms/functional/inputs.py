"""What the functions of `autograd.functional` take and give: tensors or tuples of them, checked and completed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.core.tensor.tensor import Tensor, constant, detach
from adjoint.ops.movement import movement

Tensors = tuple[Tensor, ...]
MaybeTensors = tuple[Tensor | None, ...]

OUTPUTS = "outputs of the user-provided function"


def as_tuple(given: Any, what: str, called: str) -> tuple[Tensors, bool]:
    """`given` as a tuple of tensors, and whether it was one. TypeError for anything that is not a tensor."""
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


def prepare_inputs(given: Tensors, create_graph: bool, wanted: bool = True) -> Tensors:
    """The same values as new tensors, which `wanted` asks to require grad.

    New ones, so that what the function reaches of the originals by another way is not differentiated. Results with a
    graph must lead back to the originals: these are viewed, not detached. Subclasses are asked by their methods, and
    may stay what they are.
    """
    return tuple(
        _view_input(x) if create_graph and x.requires_grad else _detach_input(x).requires_grad_(wanted) for x in given
    )


def _view_input(x: Any) -> Tensor:
    return movement.reshape(x, shape=x.array.shape) if type(x) is Tensor else x.view_as(x)


def _detach_input(x: Any) -> Tensor:
    return detach(x) if type(x) is Tensor else x.detach()


def prepare_vector(v: Any, like: Tensors, several: bool, create_graph: bool, called: str) -> Tensors:
    """`v` as new tensors. RuntimeError unless it has as many as `like`, of the same shapes."""
    vector = prepare_inputs(as_tuple(v, "v", called)[0], create_graph, wanted=False)
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
    """True if it is one tensor of one element."""
    return len(tensors) == 1 and tensors[0].numel() == 1


def compute_vjp(
    outputs: MaybeTensors,
    inputs: Tensors,
    weights: Sequence[Tensor | None] | None = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> MaybeTensors:
    """Σ weightᵀ ∂output/∂input for each input; None where no output depends on it."""
    ys, gs, xs = _select_differentiable(outputs, inputs, weights)
    if not ys or not xs:
        return (None,) * len(inputs)
    found = iter(grad(ys, xs, gs, retain_graph, create_graph, allow_unused=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)


def compute_batched_vjp(outputs: Tensors, inputs: Tensors, weights: Tensors, create_graph: bool) -> MaybeTensors:
    """`compute_vjp` of each row of the weights, in one pass: `weights` and results have a leading dimension, N."""
    ys, gs, _ = _select_differentiable(outputs, inputs, weights)
    if not ys:
        return (None,) * len(inputs)
    return grad(ys, inputs, gs, create_graph=create_graph, allow_unused=True, is_grads_batched=True)


def _select_differentiable(
    outputs: MaybeTensors, inputs: Tensors, weights: Sequence[Tensor | None] | None
) -> tuple[list[Tensor], list[Tensor | None], list[Tensor]]:
    pairs = zip(outputs, (None,) * len(outputs) if weights is None else weights, strict=True)
    known = [(y, g) for y, g in pairs if y is not None and y.requires_grad]
    return [y for y, _ in known], [g for _, g in known], [x for x in inputs if x.requires_grad]


def stack_tensors(rows: Sequence[Any]) -> Tensor:
    """Tensors of one shape joined along a new first dimension."""
    return movement.cat(*[movement.reshape(row, shape=(1, *row.array.shape)) for row in rows], axis=0)


def zeros(like: Tensor, shape: tuple[int, ...] = ()) -> Tensor:
    """Zeros of the dtype of `like`, and of its shape behind `shape`."""
    return constant(np.zeros((*shape, *like.array.shape), like.array.dtype))


def fill_missing_with_zeros(found: MaybeTensors, like: Tensors) -> Tensors:
    """`found`, with zeros where it is None."""
    return tuple(zeros(x) if tensor is None else tensor for tensor, x in zip(found, like, strict=True))


def restore_structure(tensors: Tensors, several: bool, create_graph: bool) -> Any:
    """The result in the structure that the caller used, detached unless a graph is wanted."""
    kept = tensors if create_graph else tuple(detach(tensor) for tensor in tensors)
    return kept if several else kept[0]


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


def check_strict(tensors: tuple[Tensor | None, ...], missing: str, unrecorded: str | None = None) -> None:
    """RuntimeError `missing` for the first tensor that is None, `unrecorded` for one that does not require grad."""
    for i, tensor in enumerate(tensors):
        if tensor is None:
            raise RuntimeError(missing.format(i=i))
        if unrecorded is not None and not tensor.requires_grad:
            raise RuntimeError(unrecorded.format(i=i))
