"""Random tensors equal PyTorch's for the same seed, through every function and in every order of calls."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from tests.functions.oracle import equal, same_error, torch

import adjoint as ad

PROGRAMS = [
    "t.rand(3)", "t.rand(20, 30)", "t.rand((4, 5), dtype=t.float64)", "t.randn(3)", "t.randn(40)",
    "t.randn(7, 3, dtype=t.float64)", "t.randn(100, dtype=t.float64)", "t.rand_like(x)", "t.randn_like(x)",
    "t.randn_like(x, dtype=t.float64)", "t.randint(10, (5,))", "t.randint(-3, 9, (4, 5))", "t.randint(2**40, (6,))",
    "t.randint(low=1, high=5, size=(3,))", "t.randint(5, (3,), dtype=t.int32)", "t.randint(high=5, size=(3,))",
    "t.randperm(11)", "t.randperm(0)", "t.randperm(300)", "t.normal(1.0, 2.0, (5,))", "t.normal(0.0, 1.0, (2, 20))",
    "t.normal(x, 2.0)", "t.normal(1.0, x)", "t.normal(x, x)", "t.bernoulli(t.full((8,), 0.3))", "x.bernoulli(0.5)",
    "t.bernoulli(x * 0.0 + 0.7)", "t.zeros(6).uniform_()", "t.zeros(6).uniform_(-2, 3)", "t.zeros(20).normal_()",
    "t.zeros(5, dtype=t.float64).normal_(1, 3)", "t.zeros(30).bernoulli_(0.3)",
    "t.zeros(3, 4).bernoulli_(t.full((4,), 0.6))", "t.zeros(9).exponential_()", "t.zeros(9).exponential_(2.5)",
    "[t.rand(3), t.randn(2), t.randint(5, (2,)), t.randn(30), t.rand(1), t.randperm(4)]",
    "t.nn.functional.dropout(t.ones(50), 0.3)", "[t.randn(5), t.randn(5), t.rand(1)]",
    "t.rand(2, 3, requires_grad=True)", "t.rand([])", "t.randn(0)",
    "t.randn(3, dtype=t.complex64)", "t.randn(5, 4, dtype=t.complex128)", "t.randn(0, dtype=t.complex64)",
    "[t.rand(3, generator=g), t.rand(3), t.randn(17, generator=g), g.initial_seed()]",
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("seed", [0, 1234])
def test_equals_pytorch(program: str, seed: int) -> None:
    equal(_run(ad, program, seed), _run(torch, program, seed), factor=10)


def _run(library: Any, program: str, seed: int) -> Any:
    library.manual_seed(seed)
    names = {"t": library, "g": library.Generator().manual_seed(seed + 1), "x": library.ones(3, 4)}
    return eval(program, names)


def test_state_is_pytorchs() -> None:
    ad.manual_seed(5)
    torch.manual_seed(5)
    ad.rand(3)
    torch.rand(3)
    np.testing.assert_array_equal(ad.get_rng_state().numpy(), torch.get_rng_state().numpy())
    state = ad.get_rng_state()
    first = ad.randn(20)
    ad.set_rng_state(state)
    assert ad.equal(ad.randn(20), first)
    assert ad.initial_seed() == 5


def test_a_new_seed_each_time() -> None:
    one, two = ad.seed(), ad.seed()
    assert one != two
    assert ad.initial_seed() == two


def test_in_place_draws_count_as_writes() -> None:
    x = ad.zeros(4)
    x.normal_()
    x.uniform_()
    assert x._version == 2
    leaf = ad.zeros(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf.normal_()


@pytest.mark.parametrize(
    ("program", "head"),
    [
        ("t.randint(3, 3, (2,))", "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"),
        ("t.randint(5, 3, (2,))", "random_ expects 'from' to be less than 'to', but got from=5 >= to=3"),
        ("t.randperm(-1)", ""),
        ("t.bernoulli(t.tensor([2.0]))", ""),
        ("t.normal(0.0, -1.0, (2,))", "normal expects std >= 0.0, but found std -1"),
        ("t.zeros(2).uniform_(1, 0)", "uniform_ expects to return a [from, to) range, but found from=1 > to=0"),
        ("t.zeros(2).exponential_(-1.0)", "exponential_ expects lambda > 0.0, but found lambda=-1"),
        ("t.zeros(2).bernoulli_(2.0)", "bernoulli_ expects p to be in [0, 1], but got p=2"),
        ("t.rand(2, dtype=t.int32)", ""),
        ("t.rand(-1)", ""),
    ],
)
def test_errors(program: str, head: str) -> None:
    same_error(program, head)


def test_names_of_parameters() -> None:
    assert list(inspect.signature(ad.randint).parameters)[:3] == ["low", "high", "size"]
    assert list(inspect.signature(ad.normal).parameters)[:3] == ["mean", "std", "size"]
