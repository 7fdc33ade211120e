"""Derivatives of functions as functions: `grad`, `vjp`, `jvp` and what is made of them, composing to any depth.

Reverse mode is define-by-run: the inputs get nodes of their own, `func` runs, and the backward walk is recorded where
somebody may ask for more. On the way out, what leads to nothing but those nodes is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np

from adjoint.autograd.backward import grad as gradients_of
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.runtime.pytree import flatten, tree_map, unflatten
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Function, Operand
from adjoint.transforms import argnums as given
from adjoint.transforms.level import GradLevel, as_normal_tensor

Argnums = int | tuple[int, ...]


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Return the function that computes the gradient of `func` with respect to its arguments `argnums`.

    Args:
        func: function that returns a tensor without dimensions.
        argnums: index of the argument, or tuple of them for a tuple of gradients. Default: 0.
        has_aux: True if `func` returns (value, aux). The result is then (gradient, aux). Default: False.

    Raises: RuntimeError if `func` returns anything else.

    Example:
        >>> slope = ad.func.grad(lambda x: (x ** 2).sum())
        >>> slope(ad.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """

    @wraps(func, updated=())
    def call(*args: object, **kwargs: object) -> Any:
        slopes, result = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (slopes, result[1]) if has_aux else slopes

    return call


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Return the function that computes the pair of `grad(func)` and the result of `func`.

    Raises: RuntimeError unless `func` returns a scalar tensor.
    """

    @wraps(func, updated=())
    def call(*args: object, **kwargs: object) -> Any:
        called = "grad_and_value(f)(*args)"
        with GradLevel() as origin:
            targets, structure, inputs = _prepare_inputs(origin, args, argnums)
            value = func(*inputs, **kwargs)
            value, aux = given.split_aux(value, called) if has_aux else (value, None)
            if not isinstance(value, Tensor):
                raise RuntimeError(f"{called}: Expected f(*args) to return a Tensor, got {type(value)}")
            if value.ndim:
                raise RuntimeError(
                    f"{called}: Expected f(*args) to return a scalar Tensor, got tensor with {value.ndim} dims. Maybe "
                    "you wanted to use the vjp or jacrev APIs instead?"
                )
            slopes = weighted_gradients([value], targets, None, create_graph=origin.is_differentiated_further([value]))
            slopes = origin.detach_from_level(unflatten(structure, iter(slopes)))
            result = origin.detach_from_level((value, aux) if has_aux else value)
        return slopes, result

    return call


def vjp(func: Function, *primals: object, has_aux: bool = False) -> Any:
    """Return func(*primals), and the function that maps v to the product vᵀ J, J the Jacobian of `func`.

    The second function takes v with the structure of the output. It returns a tuple with one gradient for each primal,
    and may be called many times.

    Args:
        func: function of tensors, or of trees of tensors.
        *primals: its arguments.
        has_aux: True if `func` returns (output, aux). The result is then (output, function, aux). Default: False.

    Raises: RuntimeError for outputs that are not floating or complex, and for a v of another structure.

    Example:
        >>> y, pull = ad.func.vjp(lambda x: 3 * x, ad.tensor([1.0, 2.0]))
        >>> pull(ad.tensor([1.0, 10.0]))
        (tensor([ 3., 30.]),)
    """
    output, pull, aux, _ = pullback(func, primals, None, has_aux)
    return (output, pull, aux) if has_aux else (output, pull)


def pullback(func: Function, primals: tuple[object, ...], argnums: Argnums | None, has_aux: bool) -> Any:
    """Return `vjp` with respect to some of the arguments: output, pull, aux, and the level that pull differentiates."""
    called = "vjp(f, *primals)"
    with GradLevel() as origin:
        targets, structure, inputs = _prepare_inputs(origin, primals, argnums)
        value = func(*inputs)
        value, aux = given.split_aux(value, called) if has_aux else (value, None)
        outputs, shape = flatten(value)
        given.check_outputs(outputs, called)
        for out in outputs:
            if out.array.dtype.kind not in "fcV":
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{out.dtype}"
                )
        result, aux = origin.detach_from_level((value, aux))

    def pull(
        cotangents: Tensor, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        weights, got = flatten(cotangents)
        if got != shape:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {got}, primal output: {shape}"
            )
        again = mode.recording if create_graph is None else create_graph
        slopes = weighted_gradients(
            outputs, targets, weights, again and origin.is_differentiated_further([*outputs, *weights]), retain_graph
        )
        return origin.detach_from_level(unflatten(structure, iter(slopes)))

    return result, pull, aux, origin


def linearize(func: Function, *primals: object) -> tuple[Any, Function]:
    """Return func(*primals), and the function that maps tangents t of the primals to ∂func/∂primals t.

    `func` runs once. The returned function is the transpose of its transpose.

    Raises: RuntimeError for tangents whose structure, shapes or dtypes are not those of the primals.
    """
    with GradLevel() as origin:
        targets, structure, inputs = _prepare_inputs(origin, primals, None)
        outputs, shape = flatten(func(*inputs))
        given.check_outputs(outputs, "linearize(f, *primals)")
        weights = [origin.leaf(zeros(out)) for out in outputs]
        slopes = weighted_gradients(outputs, targets, weights, create_graph=True)
        result = origin.detach_from_level(unflatten(shape, iter(outputs)))

    def push(*tangents: object) -> Operand:
        flat, got = flatten(tangents)
        if got != structure:
            raise RuntimeError(f"Expected the tangents {got} to have the same argspec as the primals {structure}")
        for i, (tangent, x) in enumerate(zip(flat, targets, strict=True)):
            given.check_tangent(i, tangent, x)
        again = mode.recording and origin.is_differentiated_further([*slopes, *flat])
        return origin.detach_from_level(unflatten(shape, iter(weighted_gradients(slopes, weights, flat, again))))

    return result, push


def jvp(
    func: Function,
    primals: tuple[object, ...],
    tangents: tuple[object, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return func(*primals), and the product of its Jacobian and the tangents, in forward mode.

    Args:
        func: function of tensors, or of trees of tensors.
        primals: tuple of its arguments.
        tangents: tuple of directions, with the structure of `primals`.
        strict: True to raise RuntimeError for an output that does not depend on the primals. Default: False, zeros.
        has_aux: True if `func` returns (output, aux). The result is then (output, tangent, aux). Default: False.

    Raises: RuntimeError where the structures, shapes or dtypes of primals and tangents differ.

    Example:
        >>> x, direction = ad.tensor([1.0, 2.0]), ad.tensor([1.0, 0.0])
        >>> ad.func.jvp(lambda x: x ** 2, (x,), (direction,))
        (tensor([1., 4.]), tensor([2., 0.]))
    """
    output, slope, aux = pushforward(func, primals, tangents, None, strict, has_aux)
    return (output, slope, aux) if has_aux else (output, slope)


def pushforward(
    func: Function, primals: tuple[object, ...], tangents: object, argnums: Argnums | None, strict: bool, has_aux: bool
) -> tuple[Any, Any, Any]:
    """Return `jvp` with respect to some of the arguments: output, its tangent, aux."""
    from adjoint.transforms.forward.dual_level import attach_tangent, new_level, primal_of, tangent_of

    called = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{called}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    chosen = primals if argnums is None else given.select_args(primals, argnums)
    flat, structure = flatten(chosen)
    along, got = flatten(tangents)
    if got != structure:
        raise RuntimeError(
            f"{called}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            "tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{structure} and tangents with structure {got}"
        )
    given.check_tensors(flat, called, "primals")
    given.check_tensors(along, called, "tangents")
    flat, along = list(map(as_normal_tensor, flat)), list(map(as_normal_tensor, along))
    cut = None if mode.inference else mode.detach_record  # in inference mode nothing would be pushed forward
    with ModeScope(inference=False, detach_record=cut, in_transform=True), new_level() as level:
        given.check_directions(flat, along)
        duals = unflatten(structure, map(attach_tangent, flat, along, [level] * len(flat)))
        value = func(*(duals if argnums is None else given.replace_args(primals, duals, argnums)))
        value, aux = given.split_aux(value, called) if has_aux else (value, None)
        outputs, shape = flatten(value)
        given.check_outputs(outputs, called)
        slopes = [tangent_of(out, level) for out in outputs]
        if strict and any(slope is None for slope in slopes):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                "allowed with strict=True."
            )
        slopes = [zeros(out) if slope is None else slope for slope, out in zip(slopes, outputs, strict=True)]
        values = [primal_of(out, level) for out in outputs]
        aux = tree_map(lambda x: primal_of(x, level) if isinstance(x, Tensor) else x, aux)
    return unflatten(shape, iter(values)), unflatten(shape, iter(slopes)), aux


def weighted_gradients(
    outputs: Sequence[Tensor],
    targets: Sequence[Tensor],
    weights: Sequence[Tensor] | None,
    create_graph: bool,
    retain_graph: bool = True,
) -> list[Tensor]:
    """Return Σ weightᵀ ∂output/∂target for each target; zeros where no output depends on it."""
    pairs = list(zip(outputs, [None] * len(outputs) if weights is None else weights, strict=True))
    tracked = [(out, weight) for out, weight in pairs if out.node is not None]
    if not tracked:
        return [zeros(x) for x in targets]
    roots, seeds = zip(*tracked, strict=True)
    found = gradients_of(roots, targets, seeds, retain_graph, create_graph, allow_unused=True)
    return [zeros(x) if g is None else g for g, x in zip(found, targets, strict=True)]


def zeros(like: Tensor, shape: tuple[int, ...] = ()) -> Tensor:
    """Return zeros of the dtype of `like`, and of its shape behind `shape`."""
    return constant(np.zeros((*shape, *like.array.shape), like.array.dtype))


def _prepare_inputs(
    origin: GradLevel, args: tuple[object, ...], argnums: Argnums | None
) -> tuple[list[Tensor], Any, Any]:
    """Return the targets of differentiation as new tensors, their structure, and the arguments with these in place."""
    chosen = args if argnums is None else given.select_args(args, argnums, single=True)
    leaves, structure = flatten(chosen)
    targets = [origin.target(x) for x in leaves]
    taken = unflatten(structure, iter(targets))
    if argnums is None:
        return targets, structure, taken
    return targets, structure, given.replace_args(args, taken if isinstance(argnums, tuple) else (taken,), argnums)
