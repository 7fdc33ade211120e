"""Ranks that call different things are told so, with both lines, where they are asked to compare."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint.distributed as dist
from adjoint.distributed import call_checks
from adjoint.distributed.call_checks import DebugLevel


@pytest.fixture(autouse=True)
def no_level(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (call_checks.OWN_VARIABLE, call_checks.TORCH_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    call_checks._level.clear()  # a call of every function may have set it
    yield
    call_checks._level.clear()


def test_levels_of_the_environment_and_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dist.get_debug_level() is DebugLevel.OFF
    for name in ("INFO", "detail", "OFF"):
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", name)
        assert dist.get_debug_level() is DebugLevel[name.upper()]
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "MUCH")
    with pytest.raises(RuntimeError, match="must be OFF, INFO, or DETAIL, and not MUCH"):
        dist.set_debug_level_from_env()
    monkeypatch.setenv("ADJOINT_DISTRIBUTED_DEBUG", "1")
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() is DebugLevel.DETAIL
    call_checks._level.clear()
    for name, level in (("info", DebugLevel.INFO), ("0", DebugLevel.OFF), ("DETAIL", DebugLevel.DETAIL)):
        monkeypatch.setenv("ADJOINT_DISTRIBUTED_DEBUG", name)
        assert dist.get_debug_level() is level
    monkeypatch.setenv("ADJOINT_DISTRIBUTED_DEBUG", "yes")
    with pytest.raises(RuntimeError, match="ADJOINT_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, and not YES"):
        dist.get_debug_level()
    dist.set_debug_level(DebugLevel.INFO)
    assert dist.get_debug_level() is DebugLevel.INFO


PROGRAM = """
    import adjoint as ad
    import adjoint.distributed as dist
    from adjoint import nn

    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()


    def exchange(x):  # alike, eager on one rank and compiled on the other
        parts = [ad.zeros(3) for _ in range(count)]
        total = x * 2
        dist.all_gather(parts, total)
        dist.all_reduce(total)
        return parts[0] + total


    (ad.compile(exchange) if rank else exchange)(ad.ones(3))
    dist.barrier()
    dist.all_reduce(ad.ones(2), async_op=True).wait()
    dist.all_gather_object([None] * count, rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))


    def step(x):
        model.zero_grad()
        model(x).sum().backward()


    (ad.compile(step) if rank else step)(ad.ones(1, 2))
    pair = dist.new_group([0, 1])


    @ad.compile
    def differ(x):
        total = x * 1.0
        if rank:
            dist.all_reduce(total, dist.ReduceOp.MAX)
        else:
            dist.all_reduce(total)
        return total


    for attempt in (
        lambda: dist.all_reduce(ad.ones(3 + rank)),
        lambda: dist.all_reduce(ad.ones(3, dtype=[ad.float32, ad.int64][rank])),
        lambda: dist.all_reduce(ad.ones(3), group=[None, pair][rank]),
        lambda: dist.broadcast(ad.ones(3), rank),
        lambda: dist.reduce(ad.ones(3), rank),
        lambda: dist.barrier() if rank else dist.all_reduce(ad.ones(2)),
        lambda: model(ad.ones(1, 2)).sum().backward() if rank else dist.all_reduce(ad.ones(2)),
        lambda: differ(ad.ones(2)),
    ):
        try:
            attempt()
            print("passed")
        except RuntimeError as error:
            print(str(error).replace("Detected mismatch between collectives on ranks: ", ""))
"""
EXPECTED = [
    "rank 0 calls all_reduce of float32[3], SUM; rank 1 calls all_reduce of float32[4], SUM",
    "rank 0 calls all_reduce of float32[3], SUM; rank 1 calls all_reduce of int64[3], SUM",
    "rank 0 calls all_reduce of float32[3], SUM; rank 1 calls all_reduce of float32[3], SUM",
    "rank 0 calls broadcast of float32[3], root 0; rank 1 calls broadcast of float32[3], root 1",
    "rank 0 calls reduce of float32[3], SUM to rank 0; rank 1 calls reduce of float32[3], SUM to rank 1",
    "rank 0 calls all_reduce of float32[2], SUM; rank 1 calls barrier",
    "rank 0 calls all_reduce of float32[2], SUM; rank 1 calls all_reduce of gradients of float32[6], bucket 0",
    "rank 0 calls all_reduce of float32[2], SUM; rank 1 calls all_reduce of float32[2], MAX",
]


@needs_mpi
def test_ranks_that_differ_are_told_both_lines(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    first, second = outputs(run_ranks(tmp_path, 2, PROGRAM, ADJOINT_DISTRIBUTED_DEBUG="1"))
    assert first == second
    lines = (tmp_path / "program.py").read_text().split("\n")
    for told, expected in zip(first.split("\n"), EXPECTED, strict=True):
        calls = told.split("; ")
        for call, words in zip(calls, expected.split("; "), strict=True):
            assert call.startswith(f"{words} among ranks [0, 1]")
        numbers = [int(call.rpartition(":")[2]) for call in calls]
        if expected == EXPECTED[-1]:  # in a compiled step the line of the exchange
            assert [lines[number - 1].strip() for number in numbers] == [
                "dist.all_reduce(total)", "dist.all_reduce(total, dist.ReduceOp.MAX)",
            ]  # fmt: skip
        else:
            assert lines[numbers[0] - 1].startswith("    lambda: ")
    assert "(group 1)" in first.split("\n")[2]
