"""Random tensors equal PyTorch's for the same seed, through every function and in every order of calls."""

import inspect
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import equal, same_error, torch
from tests.support.oracle import same as same_gradients

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
    names = {"t": library, "g": library.Generator().manual_seed(seed + 1), "x": library.ones(3, 4), "nan": np.nan}
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
    assert_raises(RuntimeError, "leaf Variable", leaf.normal_)


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
        ("t.normal(t.ones(2), -1.0)", "normal expects std >= 0.0, but found std -1"),
        ("t.normal(0.0, -t.ones(2))", "normal expects all elements of std >= 0.0"),
        ("t.normal(0.0, t.ones(2, dtype=t.complex64))", "normal expects standard deviation to be non-complex"),
        ("t.normal(1.0, 2.0)", ""),
        ("t.normal(t.ones(2, dtype=t.int64), 1.0)", ""),
        ("t.zeros(2, dtype=t.int64).normal_()", ""),
        ("t.zeros(2).random_(5, 2)", "random_ expects 'from' to be less than 'to', but got from=5 >= to=2"),
        ("t.zeros(2, dtype=t.uint8).random_(0, 300)", "out of bounds for "),
        ("t.zeros(2, dtype=t.float16).random_(0, 10**6)", "out of bounds for "),
        ("t.zeros(2, dtype=t.int32).random_(-(2**63), None)", "handles"),
        ("t.zeros(2, dtype=t.complex64).random_()", ""),
        ("t.zeros(2).random_(until=3)", ""),
        ("t.zeros(2).cauchy_(0, -1.0)", "cauchy_ expects sigma > 0.0, but found sigma=-1"),
        ("t.zeros(2, dtype=t.int64).cauchy_()", "Cauchy distribution is a continuous probability distribution."),
        ("t.zeros(2).log_normal_(0, -1.0)", "log_normal_ expects std > 0.0, but found std=-1"),
        ("t.zeros(2, dtype=t.int64).log_normal_()", ""),
        ("t.zeros(2).geometric_(1.5)", "geometric_ expects p to be in (0, 1), but got p=1.5"),
        ("t.zeros(2, dtype=t.bool).geometric_(0.5)", ""),
        ("t.zeros(2, dtype=t.int64).exponential_()", ""),
        ("t.poisson(-t.ones(2))", "invalid Poisson rate, expected rate to be non-negative"),
        ("t.poisson(t.ones(2, dtype=t.int64))", ""),
        ("t.binomial(t.ones(2, dtype=t.int64), t.ones(2))", "binomial only supports floating-point dtypes for count"),
        ("t.binomial(t.ones(2), t.ones(2, dtype=t.int64))", "binomial only supports floating-point dtypes for prob"),
        ("t.binomial(t.ones(2), t.ones(2).double())", ""),
        ("t.multinomial(t.ones(5), 6)", "cannot sample n_sample > prob_dist.size(-1) samples without replacement"),
        ("t.multinomial(t.ones(5), 0)", "cannot sample n_sample <= 0 samples"),
        ("t.multinomial(t.ones(2, 2, 2), 1)", "prob_dist must be 1 or 2 dim"),
        ("t.multinomial(t.ones(5, dtype=t.int64), 1)", "multinomial only supports floating-point dtypes for input"),
        ("t.multinomial(-t.ones(5), 2)", "probability tensor contains either `inf`, `nan` or element < 0"),
        ("t.multinomial(-t.ones(5), 2, True)", "invalid multinomial distribution (encountering probability entry < 0)"),
        ("t.multinomial(t.zeros(5), 2, True)", "invalid multinomial distribution (sum of probabilities <= 0)"),
        ("t.multinomial(t.full((5,), inf), 2, True)", "(encountering probability entry = infinity or NaN)"),
        ("t.multinomial(t.ones(5), 2, out=t.empty(2))", "multinomial expects Long tensor out, got: "),
        ("t._standard_gamma(t.ones(2, dtype=t.float16))", ""),
        ("t._sample_dirichlet(t.ones(2, dtype=t.int64))", ""),
    ],
)
def test_errors(program: str, head: str) -> None:
    same_error(program, head)


@pytest.mark.parametrize("program", [
    "t.zeros(5).uniform_(**{'from': 1, 'to': 3})", "t.zeros(5).uniform_(to=3)", "t.zeros(5).random_(to=9)",
    "t.zeros(5).random_(**{'from': 2, 'to': 9})", "t.zeros(5).random_(9, generator=g)",
    "t.rand(5, out=t.empty(5, dtype=t.float64))", "t.randn(20, out=t.empty(0))",
    "t.randint(5, (4,), out=t.empty(4))", "t.randint(2, 5, (4,), out=t.empty(0, dtype=t.int32))",
    "t.randperm(5, out=t.empty(0, dtype=t.int32))", "t.normal(0.0, 1.0, (5,), out=t.empty(5, dtype=t.float64))",
    "t.normal(t.ones(5), t.ones(5, dtype=t.float64))", "t.normal(t.ones(3, 1), t.ones(4), generator=g)",
    "t.bernoulli(t.full((5,), 0.3), out=t.empty(0, dtype=t.int64))",
    "t.multinomial(t.ones(5), 2, out=t.empty(0).long())",
    "t.multinomial(t.ones(5), 2, generator=g)", "t.poisson(t.full((5,), 3.0), generator=g)",
    "t.binomial(t.full((3, 4), 5.0), t.full((1, 4), 0.5), generator=g)", "t.binomial(-t.ones(2), t.ones(2) / 2)",
    "t.binomial(t.ones(2), t.full((2,), nan))", "t.poisson(t.zeros(3))", "t._standard_gamma(t.zeros(3))",
    "t.normal(t.ones(3, dtype=t.complex64), 1.0)", "t.normal(t.ones(3, dtype=t.complex64), t.ones(3))",
    "t.zeros(3).cauchy_(t.inf, 0.5)", "t.zeros(3).cauchy_(t.nan)",
])  # fmt: skip
def test_forms_of_calls(program: str) -> None:
    equal(_run(ad, program, 3), _run(torch, program, 3))


@pytest.mark.parametrize("program", [
    "t.normal(p, q)", "t.normal(p, 2.0)", "t.normal(1.0, q)", "t.bernoulli(p)", "t.poisson(p)", "(p * 1).cauchy_()",
    "(p * 1).random_()", "(p * 1).geometric_(0.5)", "(p * 1).log_normal_()", "(p * 1).uniform_()",
])  # fmt: skip
def test_what_is_drawn_has_no_gradient(program: str) -> None:
    ad.manual_seed(2)
    torch.manual_seed(2)
    same_gradients(program, p=np.array([0.3, 0.9, 0.5]), q=np.array([0.2, 1.0, 0.7]))


def test_a_negative_spread_is_refused_in_a_compiled_step() -> None:
    pytest.importorskip("llvmlite")
    step = ad.compile(lambda spread: ad.normal(0.0, spread))
    assert step(ad.ones(3)).shape == (3,)
    assert_raises(RuntimeError, "normal expects all elements of std", lambda: step(-ad.ones(3)))


def test_states_are_tensors_that_pytorch_takes() -> None:
    generator = ad.Generator().manual_seed(8)
    state = generator.get_state()
    assert isinstance(state, ad.Tensor)
    theirs = torch.Generator()
    theirs.set_state(torch.from_numpy(state.numpy()))
    first = ad.randn(20, generator=generator)
    equal(first, torch.randn(20, generator=theirs))
    assert generator.set_state(state) is generator
    assert ad.equal(ad.randn(20, generator=generator), first)
    with ad.random.fork_rng():
        ad.rand(3)
        inside = ad.get_rng_state()
    assert not ad.equal(ad.get_rng_state(), inside)
    assert ad.random.default_generator is ad.default_generator
    assert ad.random.thread_safe_generator() is None
    assert ad.manual_seed(3.7).initial_seed() == 3


@pytest.mark.parametrize("name", ["graphsafe_get_state()", "graphsafe_set_state(g)", "get_offset()", "set_offset(1)"])
def test_what_a_generator_of_a_cpu_refuses(name: str) -> None:
    for library in (ad, torch):
        with pytest.raises(NotImplementedError if "safe" in name else RuntimeError):
            eval(f"g.{name}", {"g": library.Generator()})


def test_names_of_parameters() -> None:
    assert list(inspect.signature(ad.randint).parameters)[:3] == ["low", "high", "size"]
    assert list(inspect.signature(ad.normal).parameters)[:3] == ["mean", "std", "size"]


def test_filling_without_history_counts_as_one_write_and_keeps_what_needs_the_values() -> None:
    x = ad.zeros(2, 3)
    assert x.uniform_() is x
    assert x._version == 1
    assert x[0]._version == 1
    w = ad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        w.normal_()
    with ad.no_grad():
        w.normal_()
    y = w * 2
    loss = (y * y).sum()
    y.detach().normal_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_normal_numbers_of_arrays_are_those_of_tensors_with_a_history(dtype: ad.dtype) -> None:
    mean, std = ad.linspace(-2, 2, 20, dtype=dtype), ad.linspace(0, 3, 20, dtype=dtype)
    ad.manual_seed(4)
    plain = ad.normal(mean, std)
    ad.manual_seed(4)
    recorded = ad.normal(mean.clone().requires_grad_(), std)
    assert plain.tolist() == recorded.tolist()
    state = ad.get_rng_state()
    with pytest.raises(RuntimeError, match="std >= 0"):
        ad.normal(mean, -std)
    with pytest.raises(RuntimeError, match="std >= 0"):
        ad.normal(mean, std * float("nan"))
    assert ad.equal(ad.get_rng_state(), state)


def test_one_number_comes_from_the_word_that_many_begin_with() -> None:
    for seed in range(3):
        ad.manual_seed(seed)
        one = [ad.rand(1).item(), ad.rand(()).item(), ad.randint(-2, 9, (1,)).item(), ad.randint(7, ()).item()]
        ad.manual_seed(seed)
        assert one[:2] == ad.rand(2).tolist()
        assert [one[2], one[3]] == [ad.randint(-2, 9, (2,))[0].item(), one[3]]
        ad.manual_seed(seed)
        words = ad.randint(0, 2**27, (4,)).tolist()
        ad.manual_seed(seed)
        assert [ad.randint(0, 2**27, (1,)).item() for _ in range(4)] == words
