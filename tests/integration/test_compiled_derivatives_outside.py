"""Derivatives outside of a compiled step are those of the eager one, at every order: what is constant stays constant.

A random function holds some of its values constant, by one of the ways that there are, or has rules of its own. It runs
plain and compiled; its derivatives up to the third, and the transforms of it, must be the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

pytest.importorskip("llvmlite")


class Rounded(ad.autograd.Function):
    """Rounds, with the gradient of the identity."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class OwnRule(ad.autograd.Function):
    """exp(x), with a rule that keeps an input, an output and a number, and is no derivative of it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(x, y)
        ctx.factor = 0.5
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * x.sin() * y * ctx.factor


class KeptOnCtx(ad.autograd.Function):
    """x y, whose rule reads attributes of its ctx."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.kept = {"x": x, "both": [x * y, 2]}
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.kept["both"][0], g * ctx.kept["x"]


def without_grad(v: Any) -> Any:
    with ad.no_grad():
        return v * v


def in_both_modes(v: Any) -> Any:
    with ad.no_grad():
        a = v.sin()
        with ad.enable_grad():
            b = v.cos()
    return a * b


def written_after(v: Any) -> Any:
    h = v * 2
    kept = h.detach().clone()
    h.mul_(v)
    return h * kept


def written_through_data(v: Any) -> Any:
    h = v * 1
    h.data.mul_(2)
    return h.sin()


def hooked(factor: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def use(v: Any) -> Any:
        h = v * v
        h.register_hook(lambda g: factor(g, h))
        return h.sin()

    return use


def hooked_node(v: Any) -> Any:
    h = v.sin()
    h.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    h.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * outputs[0],))
    return h * v


def hooks_on_saved(v: Any) -> Any:
    with ad.autograd.graph.saved_tensors_hooks(lambda t: (t, 2), lambda packed: packed[0] * packed[1]):
        return v.exp() * v


def checkpointed(v: Any) -> Any:
    return ad.utils.checkpoint.checkpoint(lambda x: (x.exp() * x.detach()).sin(), v, use_reentrant=False)


def inner_gradient(create_graph: bool) -> Callable[[Any], Any]:
    def use(v: Any) -> Any:
        h = v * 1 if v.requires_grad else v.detach().requires_grad_()
        (g,) = ad.autograd.grad((h**3).sum(), h, create_graph=create_graph, retain_graph=True)
        return g * h

    return use


def made_leaf(v: Any) -> Any:
    leaf = v.detach().requires_grad_()
    (g,) = ad.autograd.grad((leaf**3 * v).sum(), leaf, create_graph=True)
    return g * v


USES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda v: v.sin(),
    "detach": lambda v: v.detach().exp(),
    "detach and itself": lambda v: v * v.detach(),
    "detach of a product": lambda v: (v * v).detach(),
    "detach of a view": lambda v: v.view(-1)[: v.numel()].detach().view(v.shape),
    "data": lambda v: v.data * v.cos(),
    "no_grad": without_grad,
    "no_grad as a decorator": lambda v: ad.no_grad()(lambda x: x * x)(v),
    "both modes": in_both_modes,
    "set_grad_enabled": lambda v: ad.set_grad_enabled(True).clone()(lambda x: x.sin())(v),
    "integers": lambda v: (v * 3).long().to(v.dtype) + v,
    "truths": lambda v: (v > 0.1).to(v.dtype) * v,
    "round": lambda v: v.round() * v + v.sign(),
    "argmax": lambda v: v * v.argmax().to(v.dtype),
    "numbers of a shape": lambda v: v * v.shape[-1],
    "clone of a detached one": lambda v: v.detach().clone().sin() * v,
    "written after": written_after,
    "written through data": written_through_data,
    "a rule of its own": lambda v: OwnRule.apply(v * 0.7),
    "a straight-through rule": lambda v: Rounded.apply(v * 1.7) * v,
    "kept on a ctx": lambda v: KeptOnCtx.apply(v, v.sin()),
    "a hook": hooked(lambda g, h: g * 2),
    "a hook with a tensor": hooked(lambda g, h: g * h),
    "a hook with a detached tensor": hooked(lambda g, h: g * h.detach()),
    "hooks of a node": hooked_node,
    "hooks on what is saved": hooks_on_saved,
    "checkpoint": checkpointed,
    "an inner gradient": inner_gradient(create_graph=True),
    "an inner gradient without history": inner_gradient(create_graph=False),
    "a leaf made inside": made_leaf,
    "several outputs": lambda v: (parts := v.reshape(-1).split(1))[0] * parts[-1].detach() + v,
    "maximum": lambda v: v.reshape(-1).max(0).values * v,
    "where": lambda v: ad.where(v.detach() > 0, v * v, v.sin()),
    "sort": lambda v: v.reshape(-1).sort().values.view(v.shape) * v,
    "index": lambda v: v.reshape(-1)[ad.tensor([0, 0])].sum() * v.detach(),
    "cumprod": lambda v: (v.reshape(-1) + 2).cumprod(0).view(v.shape) * v.detach(),
    "matmul": lambda v: v.reshape(1, -1) @ v.detach().reshape(-1, 1) * v,
    "std": lambda v: v.std() * v.detach(),
    "norm": lambda v: v / v.norm().detach(),
}  # fmt: skip
# Hooks, and what the library refuses under transforms, are for plain derivatives.
NOT_TRANSFORMED = {
    "a hook", "a hook with a tensor", "a hook with a detached tensor", "hooks of a node", "checkpoint",
    "hooks on what is saved", "an inner gradient", "an inner gradient without history", "a leaf made inside", "data",
    "a rule of its own", "a straight-through rule", "kept on a ctx", "written through data", "set_grad_enabled",
}  # fmt: skip


def write_function(seed: int, names: list[str]) -> Callable[[Any, Any], Any]:
    """Return a random function of two vectors, the second of which it captures as well in some of its lines."""
    choice = random.Random(seed)
    lines = [(choice.choice(names), choice.randrange(3), choice.random()) for _ in range(choice.randint(1, 4))]

    def function(x: Any, w: Any) -> Any:
        values = [x, w, x * w]
        for name, which, scale in lines:
            values.append(USES[name](values[which % len(values)]) * scale + values[-1] * 0.5)
            values.pop(choice_of_old[which])
        return (values[-1] * values[0] + values[1]).sin().sum()

    choice_of_old = [choice.randrange(2) for _ in range(3)]
    return function


def inputs(seed: int) -> tuple[Any, Any]:
    numbers = np.random.default_rng(seed)
    return tuple(ad.from_numpy(numbers.uniform(-1.5, 1.5, 3)).requires_grad_() for _ in range(2))


def derivatives(function: Callable[..., Any], seed: int, order: int) -> list[Any]:
    """Return the value and the derivatives up to this order in turn, or the errors on the way."""
    seen: list[Any] = []
    for call in range(2):
        x, w = inputs(seed + call)
        try:
            y = function(x, w)
            seen.append(y.item())
            for _ in range(order):
                if not y.requires_grad:
                    break
                gradients = ad.autograd.grad(y, (x, w), create_graph=True, allow_unused=True)
                seen.append([None if g is None else g.tolist() for g in gradients])
                y = sum(((g * (i + 1.5)).sum() for i, g in enumerate(gradients) if g is not None), ad.zeros(()))
        except RuntimeError as error:
            seen.append(type(error).__name__)
    return seen


def is_close(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-7 * max(1.0, abs(a)) or (a != a and b != b)
    return a == b


@pytest.mark.parametrize("name", USES)
def test_derivatives_to_the_third(name: str) -> None:
    def function(x: Any, w: Any) -> Any:
        return (USES[name](x) * w * x + USES[name](w).sin()).sum()

    eager, compiled = derivatives(function, 0, 3), derivatives(ad.compile(function), 0, 3)
    assert is_close(eager, compiled), f"\neager    {eager}\ncompiled {compiled}"
    assert any(isinstance(part, list) for part in eager)


@pytest.mark.parametrize("seed", range(60))
def test_derivatives_of_random_functions(seed: int) -> None:
    function = write_function(seed, list(USES))
    eager, compiled = derivatives(function, seed, 3), derivatives(ad.compile(function), seed, 3)
    assert is_close(eager, compiled), f"\neager    {eager}\ncompiled {compiled}"


TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda f, x, w: grad(f)(x, w),
    "grad of grad": lambda f, x, w: grad(lambda x, w: grad(f, 1)(x, w).sum())(x, w),
    "grad of grad of grad": lambda f, x, w: grad(lambda a: grad(lambda b: grad(f)(b, w).sum())(a).sum())(x),
    "jacrev": lambda f, x, w: jacrev(grad(f), 1)(x, w),
    "jacfwd": lambda f, x, w: jacfwd(grad(f), 1)(x, w),
    "hessian": lambda f, x, w: hessian(f)(x, w),
    "vjp": lambda f, x, w: vjp(grad(f), x, w)[1](ad.ones_like(x)),
    "jvp": lambda f, x, w: jvp(grad(f), (x, w), (w, x)),
    "jvp of the function": lambda f, x, w: jvp(f, (x, w), (w, x)),
    "vmap of grad": lambda f, x, w: vmap(grad(f), (0, None))(ad.stack([x, w]), w),
    "autograd.functional": lambda f, x, w: ad.autograd.functional.hessian(f, (x, w)),
    "captured": lambda f, x, w: grad(lambda a: grad(lambda b: f(b, a)).__call__(x).sum())(w),
    "double backward of a product with a vector": lambda f, x, w: ad.autograd.functional.hvp(f, (x, w), (w, x)),
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", [name for name in USES if name not in NOT_TRANSFORMED])
def test_transforms(name: str, transform: str) -> None:
    def function(x: Any, w: Any) -> Any:
        return (USES[name](x) * w * x + USES[name](w).sin()).sum()

    def run(f: Any) -> Any:
        x, w = (v.detach() for v in inputs(3))
        try:
            found = TRANSFORMS[transform](f, x, w)
        except RuntimeError as error:
            return type(error).__name__
        leaves = ad.utils._pytree.tree_leaves(found)
        return [leaf.detach().tolist() for leaf in leaves]

    step = ad.compile(function)
    eager = run(function)
    for _ in range(2):
        assert is_close(eager, compiled := run(step)), f"\neager    {eager}\ncompiled {compiled}"
