"""`backward` and `grad`: the entries to the walk, and their checks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np

from adjoint.autograd.engine import engine
from adjoint.autograd.graph import GradientEdge, accumulation_tensor, resolve_node
from adjoint.core.dtype.dtype import DTYPES, is_floating
from adjoint.core.runtime.explanation_slot import explain_errors
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Array, NumpyDtype
from adjoint.ops.elementwise.select import cast

TensorOrEdge = Tensor | GradientEdge
TensorsOrEdges = TensorOrEdge | Sequence[TensorOrEdge]
Walk = Callable[..., Sequence[Tensor | None]]
# Does a walk for all rows of its gradients at once: that is for `vmap`, above.
map_in_front_slot: Slot[Callable[[Walk, Sequence[Tensor | None]], Sequence[Tensor | None]]] = Slot("map_in_front")

# Watchers of programs: the innermost gives a block around each `backward`, for the tensors it starts from and whether
# the graph is retained.
pass_watchers: list[Callable[[Sequence[TensorOrEdge], bool], AbstractContextManager[None]]] = []


@explain_errors
def backward(
    tensors: TensorsOrEdges,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: TensorsOrEdges | None = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves from which they were computed.

    The recorded graph is freed on the way, unless `retain_graph` keeps it.

    Args:
        tensors: tensor, or sequence of tensors.
        grad_tensors: for each tensor the gradient that enters there, of its shape. Default: None, which is 1 for a
            single element.
        retain_graph: True to keep the saved values for another pass. Default: the value of `create_graph`.
        create_graph: True to record the pass itself, for gradients of gradients. Default: False.
        inputs: tensor or tensors that alone get gradients. Default: None, all leaves.

    Raises: RuntimeError for a tensor that does not require grad, for several elements without a gradient, and for a
    graph already freed.

    Example:
        >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
        >>> ad.autograd.backward(3 * x, ad.tensor([1.0, 10.0]))
        >>> x.grad
        tensor([ 3., 30.])
    """
    roots = _as_tuple(tensors)
    given = _gradients(roots, grad_tensors)
    seeds = [make_seed(i, root, g) for i, (root, g) in enumerate(zip(roots, given, strict=True))]
    retain = create_graph if retain_graph is None else retain_graph
    targets = None if inputs is None else _as_tuple(inputs)
    if targets is not None:
        if not targets:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        _nodes(targets)
    holders = None if targets is None else list(map(accumulation_tensor, targets))
    if not pass_watchers:
        engine.run_backward(seeds, retain_graph=retain, create_graph=create_graph, targets=holders)
        return
    with pass_watchers[-1](roots, retain):
        engine.run_backward(seeds, retain_graph=retain, create_graph=create_graph, targets=holders)


@explain_errors
def grad(
    outputs: TensorsOrEdges,
    inputs: TensorsOrEdges,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the sum of the outputs with respect to each input; no `.grad` is touched.

    Args:
        outputs: tensor, or sequence of tensors.
        inputs: tensor, or sequence of tensors from which the outputs were computed.
        grad_outputs: for each output the gradient that enters there, of its shape. Default: None, which is 1 for a
            single element.
        retain_graph: True to keep the saved values for another pass. Default: the value of `create_graph`.
        create_graph: True to record the pass itself, for gradients of gradients. Default: False.
        only_inputs: deprecated; False warns and changes nothing. Default: True.
        allow_unused: True to return None for an input that the outputs do not depend on. Default: None, an error.
        is_grads_batched: True if each of `grad_outputs` has a further leading dimension; all its rows are done in one
            pass. Default: False.
        materialize_grads: True to return zeros instead of None. Default: False.

    Returns: a tuple with one gradient for each input.

    Raises: RuntimeError for an input that was not used, and in the cases of `backward`.

    Example:
        >>> x = ad.tensor(3.0, requires_grad=True)
        >>> (slope,) = ad.autograd.grad(x ** 3, x, create_graph=True)
        >>> slope.item(), ad.autograd.grad(slope, x)
        (27.0, (tensor(18.),))
    """
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: False.")
    roots, targets = _as_tuple(outputs), _as_tuple(inputs)
    if not targets:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    nodes = _nodes(targets)
    retain = create_graph if retain_graph is None else retain_graph

    def compute_grads(*gradients: Tensor | None) -> Sequence[Tensor | None]:
        seeds = [make_seed(i, root, g) for i, (root, g) in enumerate(zip(roots, gradients, strict=True))]
        found = engine.run_grad(seeds, retain_graph=retain, create_graph=create_graph, targets=nodes)
        return [found.get(node) for node in nodes]

    if is_grads_batched:
        found = _map_rows(compute_grads, roots, _gradients(roots, grad_outputs))
    else:
        found = compute_grads(*_gradients(roots, grad_outputs))
    result = []
    for i, (tensor, g) in enumerate(zip(targets, found, strict=True)):
        if g is None and materialize_grads:
            if isinstance(tensor, GradientEdge):
                raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
            g = constant(np.zeros(tensor.array.shape, tensor.array.dtype))
            if create_graph:
                g.requires_grad_()
        elif g is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        if type(tensor) is not Tensor and is_sparse(tensor):
            sparse: Any = tensor
            g = sparse.wrap_gradient(g)
        result.append(g)
    return tuple(result)


def _as_tuple(tensors: Any) -> tuple[TensorOrEdge, ...]:
    return (tensors,) if isinstance(tensors, (Tensor, GradientEdge)) else tuple(tensors)


def _nodes(tensors: tuple[TensorOrEdge, ...]) -> list[Any]:
    nodes = list(map(resolve_node, tensors))
    if None in nodes:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return nodes


def _gradients(roots: tuple[TensorOrEdge, ...], given: Any) -> list[Tensor | None]:
    """Return for each root the gradient that enters there, None where 1 does."""
    gradients = [None] * len(roots) if given is None else list((given,) if isinstance(given, Tensor) else given)
    if len(gradients) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(gradients)} gradients")
    return gradients


def _map_rows(
    compute_grads: Walk, roots: tuple[TensorOrEdge, ...], gradients: list[Tensor | None]
) -> Sequence[Tensor | None]:
    """Return `compute_grads` of each row of the gradients, all at once.

    Raises: RuntimeError unless a row has the shape of its output.
    """
    for i, (root, g) in enumerate(zip(roots, gradients, strict=True)):
        shape = (root if isinstance(root, Tensor) else resolve_node(root)).shape
        if g is not None and (not g.ndim or tuple(g.array.shape[1:]) != tuple(shape)):
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {list(g.array.shape)} and "
                f"output[{i}] has a shape of {list(shape)}. If you only want some tensors in `grad_output` to be "
                "considered batched, consider using vmap."
            )
    return map_in_front_slot.call(compute_grads, gradients)


@cache
def _one(dtype: NumpyDtype) -> Array:
    return np.ones((), dtype)


def make_seed(i: int, root: TensorOrEdge, g: Tensor | None) -> tuple[Any, Tensor]:
    """Return the node of a root, the i-th, and the gradient that enters there: `g`, or 1 for a scalar."""
    node = resolve_node(root)
    if node is None:
        raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
    like = root.array if isinstance(root, Tensor) else node
    shape, dtype = like.shape, like.dtype
    if g is None:
        if shape and not all(n == 1 for n in shape):
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs; this one has shape {tuple(shape)}. "
                "Reduce it first, as in .sum().backward(), or pass backward(gradient=...)."
            )
        if not is_floating(like) or dtype.kind == "c":
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {DTYPES[dtype]}")
        return node, constant(np.ones(shape, dtype) if shape else _one(dtype).copy())
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g.array.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of "
            f"{Size(shape)}."
        )
    if (g.array.dtype.kind == "c") is not (dtype.kind == "c"):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{i}] has a dtype of {g.dtype} and output[{i}] has a dtype of {DTYPES[dtype]}."
        )
    if nondefault.count and mode.interpreter is not None:
        mode.interpreter.adopt(g)
    return node, g if g.array.dtype == dtype else cast(g, dtype=dtype)


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: TensorsOrEdges | None = None,
) -> None:
    """Add the gradient of this tensor to the `.grad` of the leaves from which it was computed.

    The recorded graph is freed on the way, unless `retain_graph` keeps it.

    Args:
        gradient: gradient with respect to this tensor, of its shape. Default: None, which is 1 for a single element.
        retain_graph: True to keep the saved values for another pass. Default: the value of `create_graph`.
        create_graph: True to record the pass itself, for gradients of gradients. Default: False.
        inputs: tensor or tensors that alone get gradients. Default: None, all leaves.

    Raises: RuntimeError for a tensor that does not require grad, for several elements without `gradient`, and for a
    graph already freed.

    Example:
        >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
        >>> (x ** 2).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """
    backward(self, gradient, retain_graph, create_graph, inputs)


setattr(Tensor, "backward", _tensor_backward)  # noqa: B010  mypy would take a plain assignment for a mistake
