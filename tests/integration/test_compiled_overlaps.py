"""Tensors that see one memory, each in its own form: compiled steps write and read it in the order of the program.

Each case is a random step over three tensors whose memory overlaps in a random way, which changes between the calls.
It runs plain and compiled; values, memory, versions, errors and what results share must be the same after every call.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

pytest.importorskip("llvmlite")
CALLS = 6
SIZE = 12

# Three arrays or tensors over the 12 numbers of `a`: what each name sees.
FORMS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "the same": lambda a: (a, a, a),
    "apart": lambda a: (a.copy(), a.copy(), a.copy()),
    "parts": lambda a: (a[2:8], a, a[:6]),
    "parts that meet": lambda a: (a[:4], a[4:8], a[8:]),
    "steps": lambda a: (a[::2], a[1:7], a[::3]),
    "interleaved": lambda a: (a[::2], a[1::2], a[::2]),
    "rows": lambda a: (a.reshape(3, 4), a, a.reshape(3, 4)[:, 1:3]),
    "transposed": lambda a: (a.reshape(3, 4), a.reshape(3, 4).T, a.reshape(2, 6)),
    "shifted": lambda a: (a[0:9], a[1:10], a[2:11]),
    "one element": lambda a: (a[3:4], a, a[3:4].reshape(())),
    "empty": lambda a: (a[:0], a, a[4:4]),
    "of another type": lambda a: (a, a.view(np.int32), a.view(np.uint8)[:8]),
}  # fmt: skip
# How the library itself knows that they share: of a tensor `t` over all numbers.
TENSOR_FORMS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "detached": lambda t: (t, t.detach(), t.detach()),
    "detached parts": lambda t: (t, t[2:8].detach(), t.detach()[::2]),
    "parts alone": lambda t: (t[2:8].detach(), t[:6].detach(), t.detach().view(3, 4)[1]),
    "views": lambda t: (t, t[2:8], t.view(3, 4)),
    "views alone": lambda t: (t[2:8], t[:6], t.view(3, 4)[:, 1]),
    "data": lambda t: (t, t.data, t.data[1:5]),
    "by NumPy": lambda t: (t, ad.from_numpy(t.numpy()), ad.from_numpy(t.numpy()[2:5])),
}  # fmt: skip
READS = [
    "out.append({p} * 2)", "out.append({p}.sum() + k)", "total = total + {p}.sum()", "out.append({p}.clone())",
    "out.append(({p}.reshape(-1)[:1] * w).sum())", "out.append({p})", "out.append({p}.detach())", "box.kept = {p} * 1",
    "loss = ({p}.reshape(-1)[:1].clone() * w).exp().sum()",
]  # fmt: skip
WRITES = [
    "{p}.add_(1)", "{p}.mul_(0.5)", "{p}.fill_(k)", "{p}.zero_()", "{p}.copy_({p} * 0.5 + 1)", "{p} += total * 0.125",
    "{p}.reshape(-1)[:2].add_(2)", "{p}.view(-1)[1:3] = 7", "{p}.data.sub_(1)", "{p}.lerp_({p} + 2, 0.25)",
    "{p}.copy_({q}.reshape(-1)[:1])", "{p}.clamp_(-4, 4)", "ad.add({p}, 1, out={p})", "{p}.detach().neg_()",
]  # fmt: skip
DECISIONS = ["if {p}.sum() > 6: {q}.sub_(3)", "log.append({p}.sum().item())", "log.append(f'{{{p}.sum().item():.6f}}')"]
LATE = ["loss.backward(); w.grad = None", "out.append(w.grad)"]
PLACES = ["{n}", "box.{n}", 'held["{n}"]', "line[{i}]", "module.{n}", "leaf{i}.grad"]


def write_case(seed: int) -> tuple[str, list[str], list[str]]:
    """The lines of a step, the places of its three tensors, and the form of each call."""
    rng = random.Random(seed)
    places = [rng.choice(PLACES).format(n=n, i=i) for i, n in enumerate("xyz")]
    lines = ["total = ad.zeros(())", "loss = w.sum()", "out = []"]
    for _ in range(rng.randrange(3, 8)):
        p, q = rng.choice(places), rng.choice(places)
        pool = rng.choice([READS, READS, WRITES, WRITES, WRITES, DECISIONS if seed % 3 == 0 else READS])
        lines.append(rng.choice(pool).format(p=p, q=q))
    lines += [*rng.sample(LATE, rng.randrange(2)), f"out.append({places[1]} + 0)", "return out, total, loss"]
    forms = [*FORMS, *TENSOR_FORMS]
    first, second = rng.choice(forms), rng.choice(forms)
    return "\n    ".join(lines), places, [first, first, first, second, second, first]


def make_tensors(form: str) -> tuple[Any, ...]:
    array = np.linspace(-2, 3, SIZE).astype(np.float32)
    if form in FORMS:
        return (array, *map(ad.from_numpy, FORMS[form](array)))
    tensor = ad.from_numpy(array)
    return (array, *TENSOR_FORMS[form](tensor))


def run_case(seed: int, wrap: Callable[[Any], Any]) -> list[Any]:
    """What each call gives and leaves; of an error its type and beginning."""
    body, places, forms = write_case(seed)
    names: dict[str, Any] = {
        "ad": ad, "box": SimpleNamespace(), "held": {}, "line": [None] * 3, "module": nn.Module(), "log": [],
        **{f"leaf{i}": nn.Parameter(ad.zeros(1)) for i in range(3)}, "w": nn.Parameter(ad.tensor([0.5])),
    }  # fmt: skip
    free = ", ".join(p for p in places if p in "xyz")
    exec(f"def step(k, {free}):\n    {body}", names)
    step = wrap(names["step"])
    seen: list[Any] = []
    tensors: tuple[Any, ...] = ()
    array: Any = None
    for k, form in enumerate(forms):
        if k == 0 or form != forms[k - 1]:
            array, *tensors = make_tensors(form)
            for place, t in zip(places, tensors, strict=True):
                if place in "xyz":
                    continue
                if place.endswith("grad"):  # which has the shape of its leaf
                    names[place[:5]] = nn.Parameter(ad.zeros(t.shape, dtype=t.dtype)) if t.is_floating_point() else t
                    t = t.detach() if t.is_floating_point() else None
                names["_"] = t
                exec(f"{place} = _", names)
        given = [t for place, t in zip(places, tensors, strict=True) if place in "xyz"]
        try:
            result = step(k, *given)
        except Exception as error:  # noqa: BLE001  whatever the step raises is what is compared
            result = type(error).__name__, str(error)[:40]
        seen.append([describe(result, array), array.copy(), [describe(t, array) for t in tensors], list(names["log"])])
        del result
    return seen


def describe(value: Any, memory: Any) -> Any:
    if isinstance(value, ad.Tensor):
        return np.array(value.detach()), value._version, value.requires_grad, np.may_share_memory(value.array, memory)
    return [describe(x, memory) for x in value] if isinstance(value, tuple | list) else value


def differences(compiled: Any, eager: Any, where: str = "") -> str | None:
    """The first place where two results differ."""
    if isinstance(eager, np.ndarray):
        alike = compiled.shape == eager.shape and np.allclose(compiled, eager, 1e-5, 1e-5, equal_nan=True)
        return None if alike else f"{where}: {compiled}, eager {eager}"
    if isinstance(eager, (list, tuple)):
        if len(compiled) != len(eager):
            return f"{where}: {compiled}, eager {eager}"
        return next(
            (
                d
                for i, (a, b) in enumerate(zip(compiled, eager, strict=True))
                if (d := differences(a, b, f"{where}[{i}]"))
            ),
            None,
        )
    if isinstance(eager, str) and eager[-1:].isdigit():
        compiled, eager = float(compiled), float(eager)
    if isinstance(eager, float) and type(compiled) is float:
        return differences(np.asarray(compiled), np.asarray(eager), where)
    return None if compiled == eager else f"{where}: {compiled!r}, eager {eager!r}"


def compare(seed: int) -> tuple[str | None, list[str]]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        eager = run_case(seed, lambda step: step)
        told.clear()
        compiled = run_case(seed, ad.compile)
    return differences(compiled, eager), [str(w.message) for w in told]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("first", range(0, 120, 10))
def test_memory_seen_by_several_tensors(first: int) -> None:
    for seed in range(first, first + 10):
        check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(120, 2_120, 20))
def test_more_memory_seen_by_several_tensors(first: int) -> None:
    for seed in range(first, first + 20):
        check(seed)


def check(seed: int) -> None:
    differs, told = compare(seed)
    assert differs is None, f"case {seed}: {differs}\n{write_case(seed)}"
    told = [text for text in told if text.startswith("compiled function")]
    # of several types, or phases, a memory is no array: the step runs eagerly, and says so at its line
    assert all("sees in another form" in text for text in told), f"case {seed}: {told}\n{write_case(seed)}"


@pytest.mark.parametrize("form", [form for form in FORMS if form != "of another type"])
@pytest.mark.parametrize("are_arguments", [False, True])
def test_a_partition_of_memory_has_one_program(form: str, are_arguments: bool) -> None:
    tensors = [make_tensors(form)[1:3], make_tensors(form)[1:3], make_tensors("apart")[1:3]]
    box = SimpleNamespace()

    @ad.compile
    def step(*given: Any) -> Any:
        x, y = given or (box.x, box.y)
        x.add_(1)
        return y * 2

    for _ in range(3):
        for pair in tensors:
            box.x, box.y = pair
            result = step(*pair) if are_arguments else step()
            assert np.allclose(result, pair[1].numpy() * 2)
    if are_arguments:
        assert step.compilations == 1 + (form != "apart")


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("form", ["the same", "parts", "detached", "detached parts", "views", "by NumPy"])
def test_what_backward_saved_and_another_tensor_wrote(form: str, is_inside: bool) -> None:
    """Eager code saves copies of memory that NumPy has, too, and refuses what was written otherwise."""

    def gradients(wrap: Callable[[Any], Any]) -> list[Any]:
        array, x, y, _ = make_tensors(form)
        w = nn.Parameter(ad.ones(y.shape))

        def step() -> Any:
            loss = (w * y).sum()
            x.add_(1)
            if is_inside:
                loss.backward()
            return loss

        run, seen = wrap(step), []
        for _ in range(3):
            try:
                loss = run()
                if not is_inside:
                    loss.backward()
                seen.append(w.grad.tolist())
            except RuntimeError as error:
                seen.append(str(error)[:60])
        return [*seen, array.tolist()]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compiled function 'step' could not be compiled", RuntimeWarning)
        assert gradients(ad.compile) == gradients(lambda step: step)
