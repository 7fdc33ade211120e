"""`backward` and `grad`: the entries to the walk, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.autograd import engine
from adjoint.core.dtype import is_floating
from adjoint.core.mode import mode, unusual
from adjoint.core.tensor import Tensor, constant
from adjoint.ops.selection import cast

Tensors = Tensor | Sequence[Tensor]


def backward(
    tensors: Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Accumulate the gradient of `tensors` in the leaves they were made from, or only in `inputs`.

    `grad_tensors`: for each tensor the gradient that enters there, of its shape; 1 for scalars if left out.
    Raises RuntimeError for a tensor without history, a missing gradient of a non-scalar, and values already freed.
    """
    roots = _as_tuple(tensors)
    seeds = _seeds(roots, grad_tensors)
    retain = create_graph if retain_graph is None else retain_graph
    targets = None if inputs is None else _as_tuple(inputs)
    if targets is not None:
        if not targets:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        _nodes(targets)
    engine.run_backward(seeds, retain_graph=retain, create_graph=create_graph, targets=targets)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the outputs (summed, weighted by `grad_outputs`) by each input; `.grad` is untouched.

    An input that was not used raises RuntimeError, or gives None with `allow_unused`, zeros with `materialize_grads`.
    """
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: False.")
    roots, targets = _as_tuple(outputs), _as_tuple(inputs)
    seeds = _seeds(roots, grad_outputs)
    found = engine.run_grad(
        seeds,
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=_nodes(targets),
    )
    result = []
    for i, tensor in enumerate(targets):
        g: Tensor | None = found.get(tensor.node)
        if g is None and materialize_grads:
            g = constant(np.zeros(tensor.array.shape, tensor.array.dtype))
        elif g is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        result.append(g)
    return tuple(result)


def _as_tuple(tensors: Any) -> tuple[Tensor, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def _nodes(tensors: tuple[Tensor, ...]) -> list[Any]:
    for tensor in tensors:
        if tensor.node is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    return [tensor.node for tensor in tensors]


def _seeds(roots: tuple[Tensor, ...], given: Any) -> list[tuple[Any, Tensor]]:
    """Each root's node with the gradient that enters there."""
    gradients = [None] * len(roots) if given is None else list((given,) if isinstance(given, Tensor) else given)
    if len(gradients) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(gradients)} gradients")
    return [seed(i, root, g) for i, (root, g) in enumerate(zip(roots, gradients, strict=True))]


def seed(i: int, root: Tensor, g: Any) -> tuple[Any, Tensor]:
    """The node of a root, the i-th, and the gradient that enters there: `g`, or 1 for a scalar."""
    if root.node is None:
        raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
    shape, dtype = root.array.shape, root.array.dtype
    if g is None:
        if not all(n == 1 for n in shape):
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs; this one has shape {tuple(shape)}. "
                "Reduce it first, as in .sum().backward(), or pass backward(gradient=...)."
            )
        if not is_floating(root.array):
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {root.dtype}")
        return root.node, constant(np.ones(shape, dtype))
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g.array.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {list(g.array.shape)} and output[{i}] has a shape of "
            f"{list(shape)}."
        )
    if unusual.count and mode.tracer is not None:
        mode.tracer.adopt(g)
    return root.node, g if g.array.dtype == dtype else cast(g, dtype=dtype)


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Accumulate this tensor's gradient in the leaves it was made from; see `adjoint.autograd.backward`."""
    backward(self, gradient, retain_graph, create_graph, inputs)


setattr(Tensor, "backward", _tensor_backward)  # noqa: B010  mypy would take a plain assignment for a mistake
