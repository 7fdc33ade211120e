"""Kernels that draw: the numbers of the eager generator to the bit, and its state afterwards."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from tests.support.threads import in_threads

pytest.importorskip("llvmlite")

from tests.support.kernels.single import Guarded, Native, same_bits

import adjoint as ad
from adjoint.compiler.ir.graph import Value
from adjoint.compiler.kernels.random.draw import DrawPlan, plan_draw, write_draw
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.core.op.spec import Spec
from adjoint.core.random.generator import Generator
from adjoint.ops.random import draws

F32, F64, I64, BOOL, U8 = (np.dtype(t) for t in (np.float32, np.float64, np.int64, np.bool_, np.uint8))
NARROW, NARROWEST = (Target(host().triple, "", f) for f in ("+avx2" if host().vector_bits > 128 else "", ""))
SIZES = [1, 2, 7, 16, 17, 311, 312, 313, 623, 624, 625, 2000]
CASES = [(host(), n) for n in SIZES] + [(t, n) for t in (NARROW, NARROWEST) for n in (7, 313, 2000)]
P = np.random.default_rng(0).uniform(0, 1, 3000)

DRAWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "unit": (draws.uniform, {"dtype": F32, "low": 0.0, "high": 1.0}),
    "unit64": (draws.uniform, {"dtype": F64, "low": 0.0, "high": 1.0}),
    "uniform": (draws.uniform, {"dtype": F32, "low": -0.3, "high": 0.7}),
    "uniform64": (draws.uniform, {"dtype": F64, "low": 1.0, "high": 1.0 + 2.0**-50}),
    "coin": (draws.coin, {"dtype": F32, "p": 0.3}),
    "coin64": (draws.coin, {"dtype": F64, "p": 1.0}),
    "coin of truths": (draws.coin, {"dtype": BOOL, "p": 1e-3}),
    "coin of bytes": (draws.coin, {"dtype": U8, "p": 0.999}),
    "dropout": (draws.dropout_factor, {"dtype": F32, "p": 0.1}),
    "dropout64": (draws.dropout_factor, {"dtype": F64, "p": 0.5}),
    "randint": (draws.randint, {"dtype": I64, "low": -5, "high": 60}),
    "randint of bytes": (draws.randint, {"dtype": U8, "low": 0, "high": 256}),
    "randint of floats": (draws.randint, {"dtype": F32, "low": -7, "high": 2**24}),
    "wide randint": (draws.randint, {"dtype": I64, "low": -(2**40), "high": 2**41}),
    "widest randint": (draws.randint, {"dtype": I64, "low": -(2**63), "high": 2**63 - 1}),
    "exponential": (draws.exponential, {"dtype": F32, "rate": 2.0}),
    "exponential64": (draws.exponential, {"dtype": F64, "rate": 0.3}),
    "normal": (draws.normal, {"dtype": F32, "mean": 0.0, "std": 1.0}),
    "scaled normal": (draws.normal, {"dtype": F32, "mean": -1.5, "std": 0.02}),
    "normal64": (draws.normal, {"dtype": F64, "mean": 0.0, "std": 3.0}),
}


def planned(op: Any, shape: tuple[int, ...], params: dict[str, Any], p: Any = None) -> DrawPlan | None:
    operands = () if p is None else (Value(None, (), {}, Spec(p.shape, p.dtype)),)
    return plan_draw(Value(op.op, operands, {"generator": None, **params}, Spec(shape, params["dtype"])))


class Drawing:
    """A draw as native code."""

    def __init__(self, plan: DrawPlan, shape: tuple[int, ...], target: Target) -> None:
        self.plan, self.shape = plan, shape
        self.native = Native(write_draw(plan, target))

    def __call__(self, generator: Generator, *operands: Any) -> Any:
        out, scratch = Guarded(self.shape, self.plan.dtype), Guarded((3 * self.plan.scratch,), np.uint8)
        with generator.lock:
            self.native([generator.memory(), *operands, out.array, scratch.array], thread=1)
        used = scratch.check().reshape(3, -1)
        assert (used[0] == 0xA5).all()
        assert (used[2] == 0xA5).all()
        return out.check()


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("target", "size"), CASES, ids=[f"{t.vector_bits}-{n}" for t, n in CASES])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_the_eager_generator(name: str, size: int, target: Target) -> None:
    op, params = DRAWS[name]
    plan = planned(op, (size,), params)
    if op is draws.normal and size < 16:
        assert plan is None
        return
    assert plan is not None
    draw = Drawing(plan, (size,), target)
    for seed, before in enumerate([0, 1, 2, 311, 612, 623, 624, 625, 1247, 1248, 3001]):
        ours, theirs = (Generator().manual_seed(seed) for _ in range(2))
        for generator in (ours, theirs):
            generator.uniform((before,), F32)
        for _ in range(2):
            same_bits(draw(ours), op.op.evaluate(shape=(size,), generator=theirs, **params))
            same_bits(ours.place(), theirs.place())
        same_bits(ours.uniform((3,), F64), theirs.uniform((3,), F64))


@pytest.mark.parametrize("kind", [F32, F64])
@pytest.mark.parametrize("dtype", [F32, BOOL, I64])
@pytest.mark.parametrize("size", [1, 8, 17, 700])
def test_each_element_with_its_own_probability(size: int, dtype: Any, kind: Any) -> None:
    p = P[:size].astype(kind)
    p[0] = 1.0
    plan = planned(draws.bernoulli, (size,), {"dtype": dtype}, p)
    assert plan is not None
    ours, theirs = (Generator().manual_seed(size) for _ in range(2))
    draw = Drawing(plan, (size,), host())
    for _ in range(3):
        same_bits(draw(ours, p), draws.bernoulli.op.evaluate(p, dtype=dtype, generator=theirs))
    same_bits(ours.place(), theirs.place())


def test_many_normals_of_many_seeds() -> None:
    for kind in (F32, F64):
        params = {"dtype": kind, "mean": 0.0, "std": 1.0}
        plan = planned(draws.normal, (50, 41), params)
        assert plan is not None
        draw = Drawing(plan, (50, 41), host())
        for seed in range(20 if kind == F32 else 4):
            ours, theirs = (Generator().manual_seed(seed) for _ in range(2))
            same_bits(draw(ours), draws.normal.op.evaluate(shape=(50, 41), generator=theirs, **params))
            same_bits(ours.place(), theirs.place())


def test_a_large_mask() -> None:
    op, params = DRAWS["dropout"]
    plan = planned(op, (768, 512), params)
    assert plan is not None
    ours, theirs = (Generator().manual_seed(7) for _ in range(2))
    same_bits(Drawing(plan, (768, 512), host())(ours), op.op.evaluate(shape=(768, 512), generator=theirs, **params))
    same_bits(ours.place(), theirs.place())


def test_the_state_stays_in_its_place() -> None:
    generator = Generator().manual_seed(1)
    memory = generator.memory()
    states = [generator.place()]
    for change in (
        lambda: generator.manual_seed(2),
        lambda: generator.uniform((1000,), F32),
        lambda: generator.load_state_array(states[0]),
        lambda: generator.seed(),
    ):
        change()
        assert generator.memory().ctypes.data == memory.ctypes.data
        states.append(generator.place())
        same_bits(memory[:624].astype(np.uint64), states[-1][24 : 24 + 8 * 624].view(np.uint64))


def test_the_state_lives_as_long_as_its_memory() -> None:
    generator = Generator()
    memory = generator.memory()
    engine = generator._stream._engine
    assert generator.memory() is memory
    count = sys.getrefcount(engine)
    del generator
    assert sys.getrefcount(engine) == count - 1
    del memory
    assert sys.getrefcount(engine) == count - 2


def test_a_seed_given_after_the_memory_was_taken_is_in_it() -> None:
    plan = planned(*(draws.uniform, (5,), DRAWS["unit"][1]))
    assert plan is not None
    draw, generator = Drawing(plan, (5,), host()), Generator()
    generator.memory()
    start = Generator().manual_seed(9).place()
    for change in (
        lambda: generator.manual_seed(9),
        lambda: generator.load_state_array(start),
    ):
        change()
        fresh = generator.place()
        same_bits(fresh, start)
        same_bits(draw(generator), Generator().manual_seed(9).uniform((5,), F32))
        assert not np.array_equal(generator.place(), fresh)


def test_a_fresh_stream_is_fresh_until_something_is_drawn() -> None:
    torch = pytest.importorskip("torch")
    other = torch.Generator().manual_seed(5)
    ours = Generator().manual_seed(5)
    ours.memory()
    same_bits(ours.place(), other.get_state().numpy())
    plan = planned(draws.uniform, (624,), DRAWS["unit"][1])
    assert plan is not None
    draw = Drawing(plan, (624,), host())
    for _ in range(3):  # whole blocks: the position is the same after each
        same_bits(draw(ours), torch.rand(624, generator=other).numpy())
        same_bits(ours.place(), other.get_state().numpy())


@pytest.mark.parametrize(
    ("op", "params", "shape"),
    [
        (draws.dropout_factor, {"dtype": F32, "p": 0.0}, (4,)),
        (draws.dropout_factor, {"dtype": F32, "p": 1.0}, (4,)),
        (draws.uniform, {"dtype": F32, "low": 0.0, "high": 1.0}, (0, 3)),
        (draws.uniform, {"dtype": F32, "low": 1.0, "high": 0.0}, (3,)),
        (draws.uniform, {"dtype": F32, "low": 0.0, "high": np.inf}, (3,)),
        (draws.normal, {"dtype": F32, "mean": 0.0, "std": -1.0}, (30,)),
        (draws.coin, {"dtype": np.dtype(np.float16), "p": 0.5}, (3,)),
        (draws.coin, {"dtype": F32, "p": 1.5}, (3,)),
        (draws.randint, {"dtype": U8, "low": 0, "high": 257}, (3,)),
        (draws.randint, {"dtype": U8, "low": 3, "high": 3}, (3,)),
        (draws.exponential, {"dtype": F32, "rate": 0.0}, (3,)),
    ],
)
def test_what_is_left_to_numpy(op: Any, params: dict[str, Any], shape: tuple[int, ...]) -> None:
    assert planned(op, shape, params) is None


def test_other_machines() -> None:
    for triple in ("aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"):
        target = Target.from_triple(triple)
        for op, params in DRAWS.values():
            plan = planned(op, (100,), params)
            assert plan is not None
            assert "KERNEL" in target.emit_assembly(write_draw(plan, target))


def test_threads_that_draw_eagerly_and_natively_share_the_stream() -> None:
    plan = planned(draws.uniform, (101,), DRAWS["unit"][1])
    assert plan is not None
    generator, drawn = Generator().manual_seed(3), []
    draw = Drawing(plan, (101,), host())
    ways = [lambda: draw(generator), lambda: generator.uniform((101,), F32)]
    in_threads(lambda i: drawn.extend(ways[i]() for _ in range(100)), 2)
    expected = Generator().manual_seed(3).uniform((200, 101), F32)
    assert sorted(a.tobytes() for a in drawn) == sorted(row.tobytes() for row in expected)


@pytest.mark.parametrize("draw", ["randn", "rand"])
def test_draws_of_every_size_by_one_program(draw: str) -> None:
    step = ad.compile(lambda x: getattr(ad, draw)(x.shape[0], 8))
    for size in (9, 8, 6, 5, 7, 2):  # 16 numbers at a time: some have a rest, some have not
        ad.manual_seed(size)
        expected = getattr(ad, draw)(size, 8), ad.rand(3)
        ad.manual_seed(size)
        drawn = step(ad.ones(size)), ad.rand(3)
        for x, y in zip(drawn, expected, strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-5)
    assert step.compilations == 2
