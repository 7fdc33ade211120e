"""NumPy in a step: arrays of tensors, what it computes of them, and its generators; in each call, compiled as eager."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn, optim

pytest.importorskip("llvmlite")
CALLS = 5

ARRAYS: dict[str, Callable[[Any], Any]] = {
    "an argument": lambda x: x.numpy(),
    "a value": lambda x: (x * 2 - 1).detach().numpy(),
    "a view": lambda x: x[1:].numpy(),
    "detached": lambda x: (x * nn.Parameter(ad.ones(4))).detach().numpy(),
    "integers": lambda x: (x * 10).long().numpy(),
    "many integers": lambda x: (x.repeat(30) * 10).long().numpy(),
    "a matrix": lambda x: x.outer(x).numpy(),
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda a: a,
    "max": lambda a: a.max(),
    "np.max": np.max,
    "mean": lambda a: float(a.mean()),
    "sort": np.sort,
    "argsort": lambda a: a.argsort(),
    "arithmetic": lambda a: (a * 2 + 1 - a / 3)[::-1].copy(),
    "from the left": lambda a: 2.0 - a,
    "comparison": lambda a: (a > 0.5).sum(),
    "astype": lambda a: a.astype(np.float64).cumsum(),
    "ufunc": lambda a: np.sin(a) + np.maximum(a, 1),
    "clip": lambda a: np.clip(a, -1, 1),
    "where": lambda a: np.where(a > 0, a, 0),
    "percentile": lambda a: np.percentile(a, 50),
    "stack": lambda a: np.stack([a, a]),
    "concatenate": lambda a: np.concatenate([a.reshape(-1), np.zeros(2, a.dtype)]),
    "an element": lambda a: a.reshape(-1)[1],
    "a loop": lambda a: sum(v for v in a.reshape(-1)[:3]),
    "transposed": lambda a: a.T.copy(),
    "tolist": lambda a: a.tolist(),
    "shape": lambda a: (a.shape, a.ndim, a.size, len(a), str(a.dtype)),
    "linalg": lambda a: np.linalg.norm(a.astype(np.float64)),
}
USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "is returned": lambda x, made, box: made,
    "is kept": lambda x, made, box: box.log.append(made),
    "is a tensor": lambda x, made, box: x.sum() + as_tensor(made).sum(),
    "is copied": lambda x, made, box: ad.tensor(made, dtype=ad.float32) * 2 if is_numeric(made) else made,
    "is constructed": lambda x, made, box: (
        (ad.Tensor(made) * 2, ad.asarray(made)) if getattr(made, "ndim", 0) else made
    ),
    "is a factor": lambda x, made, box: x * made if isinstance(made, float) or is_number(made) else made,
    "decides": lambda x, made, box: x * 2 if as_tensor(made).sum() > 1 else x - 1,
    "is printed": lambda x, made, box: print(made),  # noqa: T201
}  # fmt: skip


def is_number(x: Any) -> bool:
    return isinstance(x, int | float) or hasattr(x, "is_integer")


def is_numeric(x: Any) -> bool:
    return not isinstance(x, tuple)


def as_tensor(x: Any) -> Any:
    return ad.as_tensor(x) if is_numeric(x) else ad.ones(2)


def plain(value: Any) -> Any:
    """Nested lists of numbers, whatever holds them."""
    if isinstance(value, ad.Tensor | np.ndarray | np.generic):
        return value.tolist()
    return [plain(x) for x in value] if isinstance(value, list | tuple) else value


def assert_alike(compiled: Any, eager: Any) -> None:
    if isinstance(eager, list):
        assert len(compiled) == len(eager), (compiled, eager)
        for a, b in zip(compiled, eager, strict=True):
            assert_alike(a, b)
    elif isinstance(eager, float) and isinstance(compiled, float):
        assert compiled == pytest.approx(eager, rel=1e-5, abs=1e-6, nan_ok=True)
    else:
        assert compiled == eager


@pytest.mark.sweep(6)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("array", ARRAYS)
def test_what_numpy_computes_of_values(array: str, function: str, use: str, capsys: Any) -> None:
    def case(wrap: Callable[[Any], Any]) -> list[Any]:
        ad.manual_seed(0)
        box, seen = SimpleNamespace(log=[]), []

        def step(x: Any) -> Any:
            return USES[use](x, FUNCTIONS[function](ARRAYS[array](x)), box)

        run = wrap(step)
        for k in range(CALLS):
            result = plain(run(ad.linspace(-1, 1, 4) * k + 0.5))
            seen.append([result, plain(box.log)])
        printed = re.findall(r"[-+.\w]+", capsys.readouterr().out)  # digits of float32 are those of its value
        return [*seen, [float(text) if re.fullmatch(r"[-+.\de]+\d|\d+\.", text) else text for text in printed]]

    with warnings.catch_warnings():
        if array == "integers" and function in ("a loop", "tolist", "an element"):
            warnings.simplefilter("ignore", RuntimeWarning)  # few of them, read one by one, are a decision
        assert_alike(case(ad.compile), case(lambda step: step))


HOLDERS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "a closure": lambda rng: lambda _: rng,
    "an attribute": lambda rng: lambda box: box.rng,
    "an item": lambda rng: lambda box: box.items["rng"],
}
DRAWS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda rng: rng.normal(),
    "normals": lambda rng: rng.normal(size=3),
    "float32": lambda rng: rng.standard_normal(3, dtype=np.float32),
    "uniform": lambda rng: rng.uniform(-1, 1, (3,)),
    "integers": lambda rng: rng.integers(3),
    "many": lambda rng: rng.integers(0, 9, size=(2, 3)),
    "permutation": lambda rng: rng.permutation(4),
    "choice": lambda rng: rng.choice([1.0, 2.0, 4.0]),
    "choices": lambda rng: rng.choice(5, size=2, replace=False),
    "random": lambda rng: rng.random() < 0.5,
    "several": lambda rng: rng.random() + rng.normal(size=2).sum(),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("use", [u for u in USES if u != "is printed"])
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("is_argument", [False, True])
def test_generators_of_numpy(draw: str, use: str, is_argument: bool) -> None:
    def case(wrap: Callable[[Any], Any]) -> list[Any]:
        rng = np.random.default_rng(0)
        box, seen = SimpleNamespace(log=[], rng=rng), []

        def step(x: Any, given: Any = None) -> Any:
            return USES[use](x, DRAWS[draw](box.rng if given is None else given), box)

        run = wrap(step)
        for k in range(CALLS):
            result = run(ad.linspace(-1, 1, 4) * k, rng) if is_argument else run(ad.linspace(-1, 1, 4) * k)
            seen.append([plain(result), plain(box.log)])
        return [*seen, rng.random()]

    assert_alike(case(ad.compile), case(lambda step: step))


@pytest.mark.parametrize("place", ["closure", "global", "attribute", "item", "argument", "legacy"])
def test_the_places_of_a_generator(place: str) -> None:
    def case(wrap: Callable[[Any], Any]) -> list[Any]:
        rng: Any = np.random.RandomState(0) if place == "legacy" else np.random.default_rng(0)
        box = SimpleNamespace(rng=rng, items={"rng": rng})
        globals()["GENERATOR"] = rng

        def by_closure(x: Any) -> Any:
            return x * rng.normal()

        def by_global(x: Any) -> Any:
            return x * GENERATOR.normal()  # noqa: F821

        def by_attribute(x: Any) -> Any:
            return x * box.rng.normal()

        def by_item(x: Any) -> Any:
            return x * box.items["rng"].normal()

        def by_argument(x: Any) -> Any:
            return draw(x, rng)

        def draw(x: Any, source: Any) -> Any:
            return x * source.normal() if isinstance(source, np.random.Generator) else x

        steps = {"closure": by_closure, "global": by_global, "attribute": by_attribute, "item": by_item}
        run = wrap(steps.get(place, by_argument if place == "argument" else by_closure))
        return [plain(run(ad.ones(2))) for _ in range(CALLS)] + [rng.normal(), rng is box.rng]

    assert_alike(case(ad.compile), case(lambda step: step))


@pytest.mark.parametrize("when", ["before", "after", "alone"])
def test_rates_that_a_schedule_has_set(when: str) -> None:
    def case(wrap: Callable[[Any], Any]) -> list[Any]:
        ad.manual_seed(0)
        model, log = nn.Linear(2, 2), []
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

        def step(x: Any) -> Any:
            if when == "before":
                log.append(schedule.get_last_lr()[0])
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            if when != "alone":
                schedule.step()
            if when != "before":
                log.append(f"{schedule.get_last_lr()[0]:.5f}")
            return loss.detach()

        run, losses = wrap(step), []
        for _ in range(CALLS):
            losses.append(run(ad.ones(1, 2)).item())
            if when == "alone":
                schedule.step()
        return [losses, log]

    with warnings.catch_warnings():
        if when == "after":  # the schedule steps at the end of a call
            warnings.filterwarnings("ignore", "compiled function 'step' runs eagerly: it asks", RuntimeWarning)
        assert_alike(case(ad.compile), case(lambda step: step))


def test_a_step_that_computes_by_numpy_is_compiled_once() -> None:
    rng = np.random.default_rng(0)

    @ad.compile
    def step(x: Any) -> Any:
        noise = ad.from_numpy(rng.normal(size=4).astype(np.float32))
        return (x + noise) / float((x * 2).numpy().std())

    for _ in range(20):
        step(ad.rand(4))
    assert step.compilations == 1


def test_an_accuracy_of_few_integers_is_compiled_once() -> None:
    def accuracy(scores: Any, labels: Any) -> Any:
        found = np.concatenate([scores.numpy(), scores.numpy()]).argmax(axis=1)
        return np.mean(found == np.concatenate([labels.numpy(), np.asarray(labels)]))

    step = ad.compile(lambda scores, labels: (scores.sum(), accuracy(scores, labels)))
    for _ in range(5):
        scores, labels = ad.rand(8, 3), ad.randint(0, 3, (8,))
        assert step(scores, labels)[1] == accuracy(scores, labels)
    assert step.compilations == 1


@pytest.mark.parametrize("dtype", [ad.float32, ad.int64])
def test_a_write_into_an_array_of_a_tensor_is_refused_with_its_line(dtype: Any) -> None:
    @ad.compile
    def step(x: Any) -> Any:
        made = (x * 2).numpy()
        made[0] = 1
        return x

    with pytest.raises(RuntimeError, match=r"a write into its array reads the value of a tensor"):
        step(ad.ones(3, dtype=dtype))
