"""What `strict=True` refuses in `autograd.functional`: derivatives that are zero because nothing leads to the input."""

from __future__ import annotations

from adjoint.core.tensor import Tensor

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


def insist(tensors: tuple[Tensor | None, ...], missing: str, unrecorded: str | None = None) -> None:
    """RuntimeError `missing` for the first tensor that is None, `unrecorded` for one that does not require grad."""
    for i, tensor in enumerate(tensors):
        if tensor is None:
            raise RuntimeError(missing.format(i=i))
        if unrecorded is not None and not tensor.requires_grad:
            raise RuntimeError(unrecorded.format(i=i))
