"""The generator against PyTorch's: the same numbers, and after every call the same state, byte for byte."""

from __future__ import annotations

import copy
import pickle
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scripts import output_of
from tests.support.threads import in_threads

import adjoint
from adjoint.core.random.box_muller import normal_pairs, scalar_normal_pairs
from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.random.generator_state import TORCH_STATE

SIZES: list[Any] = [
    0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 100, 1000, 10_000, (), (3, 5), (4, 4), (0, 7), (13, 11),
    (2, 3, 50),
]  # fmt: skip
FLOATS = ["float32", "float64"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint8"]
CHANCES = [0.0, 0.1, 0.5, 0.9, 1.0]
ENDS = [
    ("int64", ends)
    for ends in [
        (0, 2),
        (-3, 3),
        (0, 2**28 - 1),
        (0, 2**28),
        (5, 2**31),
        (0, 2**32 - 1),
        (0, 2**32),
        (-7, 2**32 + 1),
        (0, 2**40),
        (-(2**63), 2**63 - 1),
        (2**62, 2**62 + 1),
    ]
]
ENDS += [("int32", (-(2**31), 2**31 - 1)), ("int32", (0, 10)), ("int16", (-(2**15), 2**15)), ("int8", (-128, 128))]
ENDS += [("uint8", (0, 256)), ("bool", (0, 2)), ("bool", (1, 2)), ("float32", (-10, 10)), ("float32", (0, 2**24))]
ENDS += [("float64", (0, 2**53))]


class Pair:
    """Our generator and PyTorch's, from one seed; `check` compares a sample of each, and where they have got to."""

    def __init__(self, seed: int = 1234) -> None:
        self.torch = pytest.importorskip("torch")
        self.ours = Generator().manual_seed(seed)
        self.theirs = self.torch.Generator().manual_seed(seed)
        # Without AVX2 PyTorch takes logarithm and sine of the block version from elsewhere.
        self.same_functions = self.torch.backends.cpu.get_cpu_capability() in {"AVX2", "AVX512"}

    def empty(self, shape: Any, dtype: str) -> Any:
        return self.torch.empty(shape, dtype=getattr(self.torch, dtype))

    def check(self, ours: np.ndarray[Any, Any], theirs: Any) -> None:
        expected = theirs.numpy()
        assert ours.dtype == expected.dtype
        assert ours.flags.c_contiguous
        assert ours.flags.writeable
        if self.same_functions:
            assert ours.shape == expected.shape
            assert ours.tobytes() == expected.tobytes()
            np.testing.assert_array_equal(self.ours.place(), self.theirs.get_state().numpy())
        else:
            largest = np.abs(expected, dtype="float64").max(initial=0)
            np.testing.assert_allclose(ours, expected, rtol=0, atol=3e-6 * largest, strict=True)

    def uniform(self, shape: Any, dtype: str, low: float = 0.0, high: float = 1.0) -> None:
        theirs = self.empty(shape, dtype).uniform_(low, high, generator=self.theirs)
        self.check(self.ours.uniform(shape, dtype, low, high), theirs)

    def normal(self, shape: Any, dtype: str, mean: float = 0.0, std: float = 1.0) -> None:
        theirs = self.empty(shape, dtype).normal_(mean, std, generator=self.theirs)
        self.check(self.ours.normal(shape, dtype, mean, std), theirs)

    def exponential(self, shape: Any, dtype: str, lambd: float = 1.0) -> None:
        theirs = self.empty(shape, dtype).exponential_(lambd, generator=self.theirs)
        self.check(self.ours.exponential(shape, dtype, lambd), theirs)

    def bernoulli(self, shape: Any, p: float, dtype: str) -> None:
        theirs = self.empty(shape, dtype).bernoulli_(p, generator=self.theirs)
        self.check(self.ours.bernoulli(shape, p, dtype), theirs)

    def randint(self, low: int, high: int, shape: Any, dtype: str) -> None:
        size = (shape,) if isinstance(shape, int) else shape
        theirs = self.torch.randint(low, high, size, dtype=getattr(self.torch, dtype), generator=self.theirs)
        self.check(self.ours.randint(low, high, shape, dtype), theirs)

    def random(self, shape: Any, dtype: str) -> None:
        self.check(self.ours.random(shape, dtype), self.empty(shape, dtype).random_(generator=self.theirs))

    def randperm(self, n: int, dtype: str) -> None:
        theirs = self.torch.randperm(n, dtype=getattr(self.torch, dtype), generator=self.theirs)
        self.check(self.ours.randperm(n, dtype), theirs)


@pytest.mark.parametrize("dtype", FLOATS)
class TestFloats:
    @pytest.mark.parametrize(
        "ends", [(0.0, 1.0), (-1 / 3, 1 / 3), (0.1, 0.7), (2.0, 2.0), (0.0, 1e-30), (-1e30, 3e30), (1.0, 1 + 2**-20)]
    )
    def test_uniform(self, dtype: str, ends: tuple[float, float]) -> None:
        pair = Pair()
        for shape in SIZES:
            pair.uniform(shape, dtype, *ends)

    @pytest.mark.parametrize("moments", [(0.0, 1.0), (0.0, 0.02), (1.3, 0.7), (-1e6, 1e-3), (0.1, 0.0), (0.0, 0.0)])
    def test_normal(self, dtype: str, moments: tuple[float, float]) -> None:
        pair = Pair()
        for shape in SIZES:
            pair.normal(shape, dtype, *moments)

    @pytest.mark.parametrize("lambd", [1.0, 0.3, 2.5, float("inf")])
    def test_exponential(self, dtype: str, lambd: float) -> None:
        pair = Pair()
        for shape in SIZES:
            pair.exponential(shape, dtype, lambd)

    @pytest.mark.parametrize("p", CHANCES)
    def test_dropout(self, dtype: str, p: float) -> None:
        pair = Pair()
        for shape in SIZES:
            with pair.torch.random.fork_rng():
                pair.torch.set_rng_state(pair.theirs.get_state())
                theirs = pair.torch.nn.functional.dropout(pair.empty(shape, dtype).fill_(1), p)
                pair.theirs.set_state(pair.torch.get_rng_state())
            pair.check(pair.ours.dropout(shape, p, dtype), theirs)

    @pytest.mark.parametrize("out", ["float32", "int64", "bool"])
    def test_bernoulli_with_an_array_of_chances(self, dtype: str, out: str) -> None:
        pair = Pair()
        for shape in SIZES:
            p = np.resize(np.linspace(0, 1, 23), shape).astype(dtype)
            theirs = pair.empty(shape, out).bernoulli_(pair.torch.from_numpy(p), generator=pair.theirs)
            pair.check(pair.ours.bernoulli(shape, p, out), theirs)


class TestChoices:
    @pytest.mark.parametrize("p", CHANCES)
    @pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
    def test_bernoulli(self, p: float, dtype: str) -> None:
        pair = Pair()
        for shape in SIZES:
            pair.bernoulli(shape, p, dtype)

    def test_bernoulli_broadcasts_its_chances(self) -> None:
        pair = Pair()
        for p in np.array([0.1, 0.5, 0.9]), np.array([[0.25]], np.float32), np.array(0.25):
            theirs = pair.empty((100, 3), "float32").bernoulli_(pair.torch.from_numpy(p), generator=pair.theirs)
            pair.check(pair.ours.bernoulli((100, 3), p, "float32"), theirs)

    @pytest.mark.parametrize(("dtype", "ends"), ENDS)
    def test_randint(self, dtype: str, ends: tuple[int, int]) -> None:
        pair = Pair()
        for shape in SIZES:
            pair.randint(*ends, shape, dtype)

    @pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
    def test_random(self, dtype: str) -> None:
        pair = Pair()
        for shape in SIZES:
            pair.random(shape, dtype)

    @pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "float32"])
    def test_randperm(self, dtype: str) -> None:
        pair = Pair()
        for n in [size for size in SIZES if isinstance(size, int)]:
            pair.randperm(n, dtype)

    def test_a_permutation_may_use_up_its_type(self) -> None:
        pair = Pair()
        pair.randperm(256, "uint8")
        pair.randperm(128, "int8")


sizes = st.one_of(st.integers(0, 40), st.sampled_from([624, 1247, 5000]))
calls = st.one_of(
    st.tuples(st.sampled_from(["uniform", "normal", "exponential"]), sizes, st.sampled_from(FLOATS)),
    st.tuples(st.just("normal"), sizes, st.sampled_from(FLOATS), st.floats(-9, 9), st.floats(0, 9)),
    st.tuples(st.just("bernoulli"), sizes, st.sampled_from(CHANCES), st.sampled_from(["float32", "bool"])),
    st.tuples(st.just("randint"), st.integers(-5, 5), st.integers(6, 2**33), sizes, st.just("int64")),
    st.tuples(st.just("random"), sizes, st.sampled_from(INTEGERS)),
    st.tuples(st.just("randperm"), sizes, st.just("int64")),
)


@given(seed=st.integers(-(2**63), 2**64 - 1), calls=st.lists(calls, max_size=12))
def test_any_sequence_of_calls(seed: int, calls: list[tuple[Any, ...]]) -> None:
    pair = Pair(seed)
    for name, *arguments in calls:
        getattr(pair, name)(*arguments)


@given(seed=st.integers(0, 2**64 - 1))
def test_long_float32_normals(seed: int) -> None:
    Pair(seed).normal(50_000, "float32")


class TestWithoutTorch:
    """Values of PyTorch 2.13, written down: exact ones where no function of the C library is involved."""

    @pytest.mark.parametrize(
        ("name", "arguments", "expected"),
        [
            ("uniform", (4, "float32"), [0.53171587, 0.83126795, 0.971838, 0.11930084]),
            ("uniform", (2, "float64"), [0.25372732026738665, 0.7747043317543358]),
            ("uniform", (4, "float32", -1 / 3, 1 / 3), [0.021143913, 0.22084531, 0.31455868, -0.25379944]),
            ("randint", (0, 10, 8, "int64"), [2, 0, 4, 0, 3, 0, 0, 1]),
            ("randint", (-5, 2**40, 3, "int64"), [587318175071, 415431110281, 118504333437]),
            ("random", (2, "int64"), [1623581238383398394, 3672908012959206016]),
            ("random", (6, "uint8"), [136, 250, 96, 128, 27, 36]),
            ("randperm", (10,), [2, 3, 0, 8, 7, 5, 1, 9, 4, 6]),
            ("bernoulli", (12, 0.3, "int64"), [1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0]),
            ("bernoulli", (12, np.full(12, 0.3, np.float32), "int64"), [0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0]),
            ("dropout", (6, 0.25, "float32"), [1.3333334, 0, 1.3333334, 1.3333334, 0, 1.3333334]),
        ],
    )
    def test_exact_values(self, name: str, arguments: tuple[Any, ...], expected: list[Any]) -> None:
        sample = getattr(Generator().manual_seed(2024), name)(*arguments)
        assert sample.tolist() == np.array(expected, sample.dtype).tolist()

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_values_with_logarithms(self, dtype: str) -> None:
        generator = Generator().manual_seed(2024)
        few = [-0.04042916736941367, 1.72599212022981, -0.8140387642807665, 1.3721666341808492, 0.505964787487793]
        np.testing.assert_allclose(generator.normal(5, dtype), few, rtol=1e-6 if dtype == "float32" else 1e-14)
        exponentials = [0.14633211, 0.74517083, 0.20414823]
        np.testing.assert_allclose(generator.manual_seed(2024).exponential(3, dtype, 2.0), exponentials, rtol=1e-6)

    def test_a_block_of_normals_in_float64(self) -> None:
        sample = Generator().manual_seed(2024).normal(17, "float64")[[0, 7, 8, 15, 16]]
        expected = [-0.704024742037807, 1.260752216117086, -1.915862004555521, 0.585311738435215, 0.689305195320466]
        np.testing.assert_allclose(sample, expected, rtol=1e-14)

    @pytest.mark.parametrize(
        ("name", "arguments", "expected"),
        [
            ("normal", (100_001, "float32"), 1126129283),
            ("normal", (100_001, "float32", 0.1, 0.02), 4161664151),
            ("uniform", (100_001, "float32", -1 / 3, 1 / 3), 2021694343),
            ("uniform", (100_001, "float64", -1 / 3, 1 / 3), 3516468367),
            ("randperm", (5000,), 1458221768),
        ],
    )
    def test_checksums(self, name: str, arguments: tuple[Any, ...], expected: int) -> None:
        assert zlib.crc32(getattr(Generator().manual_seed(2024), name)(*arguments).tobytes()) == expected

    def test_states(self) -> None:
        generator = Generator().manual_seed(2024)
        assert zlib.crc32(generator.place().tobytes()) == 3367095200
        generator.normal(3, "float32")
        state = generator.place()
        assert state.shape == (5056,)
        assert state.dtype == np.uint8
        assert state[:24].view(np.int32).tolist() == [2024, 0, 617, 1, 8, 0]  # seed, left, seeded, next
        assert state[5040:5044].view(np.int32) == 1  # a second normal is kept
        assert state[5024:5032].view(np.float64) == pytest.approx(1.3721666341808492, rel=1e-14)


class TestStates:
    @pytest.mark.parametrize("words", [0, 1, 623, 624, 625, 1248])
    @pytest.mark.parametrize("normals", [0, 1, 2])
    def test_states_move_both_ways(self, words: int, normals: int) -> None:
        pair = Pair(7)
        pair.random(words, "int32")
        pair.normal(normals, "float32")
        ours = Generator().load_state_array(pair.theirs.get_state().numpy())
        pair.theirs.manual_seed(1)
        pair.theirs.set_state(pair.torch.from_numpy(pair.ours.place()))
        pair.ours = ours
        assert ours.initial_seed() == pair.theirs.initial_seed() == 7
        pair.normal(3, "float64")
        pair.uniform(700, "float32")

    @pytest.mark.parametrize("seed", [0, 1, -1, 2**32, 2**32 + 5, 2**64 - 1, -(2**63)])
    def test_seeds(self, seed: int) -> None:
        pair = Pair(seed)
        assert pair.ours.initial_seed() == pair.theirs.initial_seed()
        pair.random(3, "int64")

    def test_a_new_generator_has_the_default_seed_of_pytorch(self) -> None:
        pair = Pair()
        assert Generator().initial_seed() == pair.torch.Generator().initial_seed()

    def test_seed_is_new_each_time_and_reported(self) -> None:
        generator = Generator()
        first, second = generator.seed(), generator.seed()
        assert first != second
        assert generator.initial_seed() == second
        assert generator.random(5, "int64").tolist() == Generator().manual_seed(second).random(5, "int64").tolist()
        assert default_generator.initial_seed() != Generator().initial_seed()

    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), Generator.clone_state]
    )
    def test_copies_go_their_own_way(self, copied: Any) -> None:
        generator = Generator().manual_seed(3)
        generator.normal(3, "float32")
        expected = generator.clone_state().normal(2, "float32").tolist()
        twin = copied(generator)
        assert twin.normal(2, "float32").tolist() == expected
        assert twin.initial_seed() == 3
        assert generator.normal(2, "float32").tolist() == expected

    def test_the_kept_normal_is_forgotten_with_its_seed(self) -> None:
        generator = Generator().manual_seed(3)
        first = generator.normal(1, "float32")
        assert generator.manual_seed(3).normal(1, "float32") == first
        assert generator.normal(1, "float32") != first

    def test_manual_seed_and_set_state_return_the_generator(self) -> None:
        generator = Generator()
        assert generator.manual_seed(1) is generator
        assert generator.load_state_array(generator.place()) is generator

    def test_a_state_is_not_shared(self) -> None:
        generator = Generator().manual_seed(3)
        state = generator.place()
        kept = state.copy()
        generator.uniform(1000, "float32")
        np.testing.assert_array_equal(state, kept)
        state[:] = 0
        np.testing.assert_array_equal(Generator().load_state_array(kept).place(), kept)

    @pytest.mark.needs_threads
    def test_threads_share_a_stream(self) -> None:
        generator, alone = Generator().manual_seed(5), Generator().manual_seed(5)
        samples: list[int] = []

        def draw() -> None:
            for _ in range(200):
                samples.extend(generator.random(7, "int32").tolist())

        in_threads(lambda _: draw(), 4)
        assert sorted(samples) == sorted(alone.random(4 * 200 * 7, "int32").tolist())

    @pytest.mark.needs_processes
    def test_importing_does_not_load_numpy_random(self) -> None:
        program = "import sys, adjoint.core.random.generator; sys.exit('numpy.random' in sys.modules)"
        output_of(program)

    def test_repr(self) -> None:
        assert repr(Generator().manual_seed(4)) == "Generator(device='cpu', initial_seed=4)"


def damaged(**fields: Any) -> np.ndarray[Any, Any]:
    state = Generator().manual_seed(1).place()
    for name, value in fields.items():
        state.view(TORCH_STATE)[name] = value
    return state


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.uniform(-1, "float32"), RuntimeError, r"negative dimension -1: \[-1\]"),
        (lambda g: g.normal((2, -3), "float32"), RuntimeError, r"negative dimension -3: \[2, -3\]"),
        (lambda g: g.randperm(-1), RuntimeError, r"negative dimension -1: \[-1\]"),
        (lambda g: g.uniform(3, "int64"), RuntimeError, "uniform: the dtype must be floating, but got int"),
        (lambda g: g.normal(3, "bool"), RuntimeError, "normal: the dtype must be floating, but"),
        (lambda g: g.bernoulli(3, 0.5, "complex64"), RuntimeError, "bernoulli: the dtype must be bool, an integer"),
        (lambda g: g.uniform(3, "float32", 1, 0), RuntimeError, r"\[from, to\) range, but found from=1 > to=0"),
        (lambda g: g.uniform(3, "float32", 0, 1e39), RuntimeError, "finite numbers of float32, but got 0 and 1e"),
        (lambda g: g.uniform(3, "float32", float("nan"), 1), RuntimeError, "but got nan and 1"),
        (lambda g: g.uniform(3, "float32", -3e38, 3e38), RuntimeError, r"to-from <= 3.40282e\+38, the largest num"),
        (lambda g: g.normal(3, "float32", 0, -1), RuntimeError, "normal expects std >= 0.0, but found std -1"),
        (lambda g: g.exponential(3, "float32", 0), RuntimeError, "expects lambda > 0.0, but found lambda=0"),
        (lambda g: g.bernoulli(3, 1.5, "bool"), RuntimeError, r"bernoulli_ expects p to be in \[0, 1\], but got p=1.5"),
        (lambda g: g.bernoulli(3, float("nan"), "bool"), RuntimeError, "but got p=nan"),
        (lambda g: g.bernoulli(2, np.array([0.5, -0.5]), "bool"), RuntimeError, "but got p=-0.5 in an array p"),
        (lambda g: g.bernoulli(2, np.array([0, 1]), "bool"), RuntimeError, "an array p: the dtype must be floating"),
        (lambda g: g.dropout(3, 1.5, "float32"), ValueError, "has to be between 0 and 1, but got 1.5"),
        (lambda g: g.randint(5, 5, 0, "int64"), RuntimeError, "'from' to be less than 'to', but got from=5 >= to=5"),
        (lambda g: g.randint(0, 257, 3, "uint8"), RuntimeError, "to - 1 is out of bounds for uint8: the range"),
        (lambda g: g.randint(-1, 3, 3, "uint8"), RuntimeError, "from is out of bounds for uint8: the range"),
        (lambda g: g.randint(0, 3, 3, "bool"), RuntimeError, "to - 1 is out of bounds for bool: the range"),
        (lambda g: g.randint(0, 2**63 + 1, 3, "int64"), RuntimeError, "out of bounds for int64"),
        (lambda g: g.randint(0, 2**17, 3, "float16"), RuntimeError, "out of bounds for float16"),
        (lambda g: g.randint(-(2**63), None, 3, "int32"), RuntimeError, "handles int64 and floating dtypes, not int32"),
        (lambda g: g.randint(2**24, None, 3, "float32"), RuntimeError, "to be less than or equal to 'to_inc'"),
        (lambda g: g.randperm(257, "uint8"), RuntimeError, "uint8 cannot hold all the numbers from 0 to 256"),
        (lambda g: g.randperm(2, "bool"), NotImplementedError, '"randperm" not implemented for bool'),
        (lambda g: g.randperm(2**31), RuntimeError, "n must be less than 214748364, but got 2147483648"),
        (lambda g: g.manual_seed(2.0), RuntimeError, "manual_seed expected an integer, but got float"),
        (lambda g: g.manual_seed(2**64), ValueError, "Overflow when unpacking long long"),
        (lambda g: g.manual_seed(-(2**63) - 1), ValueError, "Overflow when unpacking long long"),
        (lambda g: g.load_state_array(np.zeros(10, np.uint8)), RuntimeError, r"shape \(5056,\), but got \(10,\)"),
        (lambda g: g.load_state_array(np.zeros(5056)), TypeError, "must be an array of uint8, but got float64"),
        (lambda g: g.load_state_array(np.zeros(5056, np.uint8)), RuntimeError, "not the state of a Mersenne Twister"),
        (lambda g: g.load_state_array(damaged(left=0)), RuntimeError, "not the state"),
        (lambda g: g.load_state_array(damaged(left=2)), RuntimeError, "not the state"),
        (lambda g: g.load_state_array(damaged(next=625, left=0)), RuntimeError, "not the state"),
        (lambda g: g.load_state_array(damaged(seeded=0)), RuntimeError, "not the state"),
        (lambda g: g.load_state_array(damaged(words=2**32)), RuntimeError, "not the state"),
        (lambda g: Generator("cuda"), RuntimeError, "cuda"),
    ],
)
def test_errors_leave_the_state_alone(call: Any, error: type[Exception], message: str) -> None:
    generator = Generator().manual_seed(1)
    generator.normal(1, "float32")
    state = generator.place()
    with pytest.raises(error, match=message):
        call(generator)
    np.testing.assert_array_equal(generator.place(), state)


def test_a_stream_is_put_back_where_a_snapshot_was_taken() -> None:
    generator = Generator().manual_seed(3)
    for draws in (0, 3, 700):
        adjoint.randn(draws, generator=generator)
        place, snapshot = generator.get_state(), generator.snapshot()
        expected = adjoint.randn(17, generator=generator).tolist()
        generator.restore(snapshot)
        assert adjoint.equal(generator.get_state(), place)
        assert adjoint.randn(17, generator=generator).tolist() == expected
    fresh = generator.manual_seed(5).get_state()
    snapshot = generator.snapshot()
    adjoint.rand(1000, generator=generator)
    generator.manual_seed(6)
    generator.restore(snapshot)
    assert adjoint.equal(generator.get_state(), fresh)
    assert generator.initial_seed() == 5


def test_few_normals_are_those_of_numpys_functions() -> None:
    uniforms = Generator().manual_seed(2).uniform(400, "float64")
    np.testing.assert_array_equal(scalar_normal_pairs(uniforms.tolist()), normal_pairs(uniforms))
    edges = np.array([0.0, 0.0, 0.75, 0.5, 0.5, 1 - 2.0**-53])
    found = np.array(scalar_normal_pairs(edges.tolist()))
    np.testing.assert_array_equal(found, normal_pairs(edges))
    assert not np.signbit(found[found == 0]).any()
