"""What leaves a compiled step is what leaves the eager one: objects, memory, flags, counts of writes, gradients."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.outcomes import assert_same, describe, run, written_through

import adjoint as ad
from adjoint import nn

Case = Callable[[Callable[[Any], Any]], Callable[[int], Any]]


def assert_compiled_as_eager(case: Case, calls: int = 3) -> None:
    assert_same(run(case, ad.compile, calls), run(case, lambda step: step, calls))


# what a tensor that leaves the step is made of: an argument, a captured tensor, or one that the step made
BASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "argument": lambda x, b, w: x, "buffer": lambda x, b, w: b, "parameter": lambda x, b, w: w,
    "made": lambda x, b, w: x * 2, "made with history": lambda x, b, w: x * w,
    "made leaf": lambda x, b, w: (x * 2).requires_grad_(), "view made": lambda x, b, w: (x * w).view(3, 2),
    "parameter made": lambda x, b, w: nn.Parameter(x * 2),
}  # fmt: skip
ALIASES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda t: t, "view": lambda t: t.view(6), "part": lambda t: t[1:], "transposed": lambda t: t.mT,
    "detached": lambda t: t.detach(), "part of data": lambda t: t.data.view(6)[1:],
    "view detached": lambda t: t.view(6).detach(), "no_grad": lambda t: ad.no_grad()(lambda: t.view(6))(),
    "clone": lambda t: t.clone(), "expanded": lambda t: t[:, None].expand(-1, 2, -1),
    "parameter": lambda t: nn.Parameter(t), "unbind": lambda t: t.unbind(0)[0],
    "asked": lambda t: t.detach().requires_grad_(), "view of view": lambda t: t.view(6)[2:].view(2, 2),
    "strided": lambda t: t.as_strided((2, 2), (1, 2)), "diagonal": lambda t: t.diagonal(),
}  # fmt: skip
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda t, a: None, "base": lambda t, a: ad.no_grad()(lambda: t.add_(1))(),
    "alias": lambda t, a: ad.no_grad()(lambda: a.mul_(2))(), "twice": lambda t, a: (t.data.mul_(3), t.data.add_(1)),
}  # fmt: skip


@pytest.mark.sweep(6)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("i", "first"), list(enumerate(ALIASES)), ids=lambda each: str(each))
def test_tensors_that_share_memory(base: str, i: int, first: str, write: str) -> None:
    """One is returned or kept, the second returned twice, the base returned or not: calls share as eager ones do."""
    names = list(ALIASES)
    second = names[(i * 5 + 3 * list(BASES).index(base) + list(WRITES).index(write)) % len(names)]
    kept, base_too = (i + list(WRITES).index(write)) % 2, (i // 2 + list(BASES).index(base)) % 2

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        b, w = ad.arange(6.0).view(2, 3).clone(), nn.Parameter(ad.ones(2, 3) * 0.5)
        holder = SimpleNamespace(kept=None)

        def step(x: Any) -> Any:
            t = BASES[base](x, b, w)
            one, two = ALIASES[first](t), ALIASES[second](t)
            WRITES[write](t, one)
            if kept:
                holder.kept = one
            return (t if base_too else None), (None if kept else one), two, two

        compiled = wrap(step)

        def call(k: int) -> Any:
            x = ad.arange(6.0).view(2, 3).clone() + k
            t, one, two, again = compiled(x)
            seen = {"x": x, "b": b, "w": w, "t": t, "one": one, "two": two, "again": again, "kept": holder.kept}
            return describe(seen), written_through(seen)

        return call

    assert_compiled_as_eager(case)


# `.data =`: whose memory is replaced, by what, and what the step does before and after
OWNERS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "argument": lambda x, b, w, v: x, "buffer": lambda x, b, w, v: b, "parameter": lambda x, b, w, v: w,
    "view": lambda x, b, w, v: v,
}  # fmt: skip
VALUES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "made": lambda t, x, b: x * 2, "from itself": lambda t, x, b: t.data * 0.5 + 1, "captured": lambda t, x, b: b,
    "argument": lambda t, x, b: x, "longer": lambda t, x, b: ad.cat([x, x], 0), "empty": lambda t, x, b: ad.zeros(0),
    "shorter": lambda t, x, b: x[:1] * 1.0, "another type": lambda t, x, b: (x * 3).double(),
    "view of made": lambda t, x, b: (x + 1).view(3, 2), "detached": lambda t, x, b: t.detach(),
    "constant": lambda t, x, b: ad.full((2, 3), 7.0),
}  # fmt: skip
BEFORE: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda t: None, "written": lambda t: t.data.add_(1), "detached": lambda t: t.detach(),
}  # fmt: skip
AFTER: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda t, v: None, "written": lambda t, v: t.data.add_(1), "other": lambda t, v: v.detach().mul_(2),
    "again": lambda t, v: setattr(t, "data", v.detach() * 2),
}  # fmt: skip


@pytest.mark.sweep(9)
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("owner", OWNERS)
def test_data_that_a_step_replaces(owner: str, value: str, before: str, after: str) -> None:
    """The tensor has the new memory, whatever its size and type; who saw the old one has that still."""

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        b, w = ad.arange(6.0).view(2, 3).clone(), nn.Parameter(ad.ones(2, 3) * 0.5)
        whole = ad.arange(12.0).view(2, 6).clone()
        v = whole[:, ::2]
        outside = None if owner == "argument" else OWNERS[owner](None, b, w, v).detach()

        def step(x: Any) -> Any:
            t = OWNERS[owner](x, b, w, v)
            early, new = BEFORE[before](t), VALUES[value](t, x, b)
            t.data = new
            AFTER[after](t, new)
            return early, (new if before == "nothing" else None), t.detach() * 1, t.data

        compiled = wrap(step)

        def call(k: int) -> Any:
            x = ad.arange(6.0).view(2, 3).clone() + k
            if owner != "argument" and k == 2:  # back to the size that the first program knows
                OWNERS[owner](x, b, w, v).data = ad.ones(2, 3)
            seen = dict(zip(("early", "new", "used", "data"), compiled(x), strict=True))
            seen |= {"x": x, "b": b, "w": w, "v": v, "whole": whole, "outside": outside}
            return describe(seen, versions=False), written_through(seen)

        return call

    assert_compiled_as_eager(case, 4)


INITIALIZED = {
    "linear": (lambda: nn.LazyLinear(7), (3, 5)), "conv": (lambda: nn.LazyConv1d(4, 3), (2, 3, 8)),
    "transposed": (lambda: nn.LazyConvTranspose2d(2, 3), (2, 3, 4, 4)), "batch": (nn.LazyBatchNorm1d, (4, 3)),
    "instance": (lambda: nn.LazyInstanceNorm1d(affine=True), (2, 3, 5)),
    "several": (lambda: nn.Sequential(nn.LazyLinear(6), nn.Dropout(0.5), nn.ReLU(), nn.LazyLinear(2)), (4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("layer", INITIALIZED)
def test_lazy_layers_get_their_parameters_in_the_first_call(layer: str, train: bool) -> None:
    make, shape = INITIALIZED[layer]

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        ad.manual_seed(3)
        model = make()
        optimizer = ad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = ((model(x) - 1) ** 2).mean()
            if train:
                loss.backward()
                optimizer.step()
            return loss

        compiled = wrap(step)

        def call(k: int) -> Any:
            loss = compiled(ad.arange(float(ad.zeros(shape).numel())).view(shape) * 0.01 + k)
            return describe({"loss": loss, **model.state_dict(keep_vars=True)}, versions=False), repr(model)

        return call

    assert_compiled_as_eager(case, 4)


def test_a_step_that_fails_leaves_a_lazy_layer_as_the_eager_one_does() -> None:
    """What the trace made of it is taken back first: the parameters are drawn once."""

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        ad.manual_seed(2)
        layer = nn.LazyLinear(3)
        state = SimpleNamespace(fails=True)

        def step(x: Any) -> Any:
            y = layer(x)
            if state.fails:
                raise ValueError("not yet")
            return y

        compiled = wrap(step)

        def call(k: int) -> Any:
            state.fails = k < 2
            try:
                made = compiled(ad.ones(2, 4))
            except ValueError as error:
                made = str(error)
            seen = {"made": made, **layer.state_dict(keep_vars=True)}
            return describe(seen, versions=False), repr(layer), ad.rand(1).item()

        return call

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it runs eagerly where it raises
        assert_compiled_as_eager(case, 4)


LEAVES: dict[str, Callable[[Any, Any], Any]] = {
    "asked": lambda x, w: x.clone().requires_grad_(), "detached": lambda x, w: (x * w).detach().requires_grad_(),
    "zeros": lambda x, w: ad.zeros(3, requires_grad=True),
    "tensor": lambda x, w: ad.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "parameter": lambda x, w: nn.Parameter(x * 2), "of the argument": lambda x, w: x.detach().requires_grad_(),
    "of a parameter": lambda x, w: nn.Parameter(w.detach().clone()),
    "view": lambda x, w: (x * 2).view(3, 1)[:, 0].requires_grad_(),
    "random": lambda x, w: ad.rand(3, requires_grad=True),
}  # fmt: skip
PASSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "once": lambda leaf, x, w: (leaf * w * x).exp().sum().backward(),
    "twice": lambda leaf, x, w: [(leaf * leaf * w).sum().backward() for _ in range(2)],
    "penalty": lambda leaf, x, w: (
        (ad.autograd.grad((leaf**3 * w).sum(), leaf, create_graph=True)[0].norm() - 1) ** 2
    ).backward(),
    "sign": lambda leaf, x, w: ((leaf * w).sum().backward(), leaf.data.add_(leaf.grad.sign() * 0.1)),
    "outside": lambda leaf, x, w: (leaf**2 * w * x).sum(),
    "retained": lambda leaf, x, w: _retain(leaf * 2, w),
    "hooked": lambda leaf, x, w: (leaf.register_hook(lambda g: g * 3), (leaf * w).sum().backward())[1],
    "cleared": lambda leaf, x, w: ((leaf * w).sum().backward(), setattr(leaf, "grad", None))[1],
}  # fmt: skip


def _retain(y: Any, w: Any) -> Any:
    y.retain_grad()
    (y * y * w).sum().backward()
    return y


@pytest.mark.sweep(4)
@pytest.mark.parametrize("returned", ["leaf", "gradient", "both", "kept"])
@pytest.mark.parametrize("how", PASSES)
@pytest.mark.parametrize("kind", LEAVES)
def test_leaves_made_in_the_step(kind: str, how: str, returned: str) -> None:
    """One program, whose leaves are leaves with the gradients that they have eagerly, in the step and outside."""
    compiled: list[Any] = []

    def case(wrap: Callable[[Any], Any]) -> Callable[[int], Any]:
        ad.manual_seed(1)
        w = nn.Parameter(ad.tensor([0.5, -0.25, 1.0]))
        holder = SimpleNamespace(leaf=None)

        def step(x: Any) -> Any:
            leaf = LEAVES[kind](x, w)
            out = PASSES[how](leaf, x, w)
            if returned == "kept":
                holder.leaf = leaf
            out = out if isinstance(out, ad.Tensor) else None
            return (leaf if returned in ("leaf", "both") else None), (leaf.grad if returned != "leaf" else None), out

        run_step = wrap(step)
        compiled[:] = [run_step]

        def call(k: int) -> Any:
            w.grad = None
            x = ad.tensor([0.1, 0.2, 0.3]) * (k + 1)
            leaf, gradient, out = run_step(x)
            if how == "outside":
                out.backward(retain_graph=True)
                (out * 2).backward()
                out = None
            if leaf is not None and how not in ("sign", "outside"):
                (leaf * 2).sum().backward()
            return describe({"x": x, "w": w, "leaf": leaf, "g": gradient, "out": out, "kept": holder.leaf})

        return call

    eager = run(case, lambda step: step, 4)
    assert_same(run(case, ad.compile, 4), eager)
    assert compiled[0].compilations == 1
