"""Exchanges in compiled steps take place once in each call, over the group that there is, and fail without a trace."""

import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")

from tests.support.mirror_ranks import MirrorCommunicator, mirror_ranks
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint as ad
import adjoint.distributed as dist
from adjoint import nn
from adjoint.distributed import default_group
from adjoint.distributed.process_group import ProcessGroup


@pytest.fixture
def comm() -> Iterator[MirrorCommunicator]:
    with mirror_ranks() as made:
        yield made


class Trainee:
    """A small model on several ranks, with its optimizer, and a step that may ask for a value."""

    def __init__(self, asks: bool = False, **options: Any) -> None:
        ad.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=5e-5, **options)
        self.optimizer = ad.optim.AdamW(self.model.parameters(), 0.1)
        self.asks, self.limit, self.printed = asks, 1e9, 0

    def step(self, x: ad.Tensor) -> ad.Tensor:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if self.asks and norm.item() > self.limit:
            self.printed += 1
        self.optimizer.step()
        return loss.detach()

    def state(self) -> list[Any]:
        moments = [t for s in self.optimizer.state.values() for t in s.values()]
        return [t.detach().numpy().copy() for t in (*self.model.parameters(), *moments)]


def calls_of(comm: MirrorCommunicator, function: Callable[..., Any], *args: Any) -> int:
    before = len(comm.calls)
    function(*args)
    return len(comm.calls) - before


@pytest.mark.parametrize("overlap", ["0", "1"])
def test_a_step_that_asks_for_values_exchanges_once_in_each_call(
    comm: MirrorCommunicator, monkeypatch: pytest.MonkeyPatch, overlap: str
) -> None:
    monkeypatch.setenv("ADJOINT_OVERLAP", overlap)
    eager, compiled = Trainee(asks=True), Trainee(asks=True)
    train = ad.compile(compiled.step)
    for limit in (1e9, 0.0, 1e9, 0.0):  # the first two calls are traced
        eager.limit = compiled.limit = limit
        expected = calls_of(comm, eager.step, ad.ones(2, 3))
        assert calls_of(comm, train, ad.ones(2, 3)) == expected == len(compiled.model.reducer.buckets)
    for a, b in zip(eager.state(), compiled.state(), strict=True):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-7)
    assert compiled.printed == 2


def test_a_step_that_cannot_be_compiled_exchanges_once(comm: MirrorCommunicator) -> None:
    @ad.compile(fallback=True)
    def step(x: ad.Tensor) -> ad.Tensor:
        total = x.clone()
        dist.all_reduce(total)
        parts = [ad.zeros(2), ad.zeros(2)]
        dist.all_gather(parts, total)
        if total.sum().item() > 0:
            total += 1
        dist.barrier()  # a TraceError, when two exchanges took place
        return parts[1] + total[0]

    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        assert calls_of(comm, lambda: step(ad.ones(2))) == 3
    assert step(ad.ones(2)).tolist() == [5.0, 5.0]
    assert calls_of(comm, step, ad.ones(2)) == 3


def test_no_sync_around_a_step_and_in_it(comm: MirrorCommunicator) -> None:
    trainee = Trainee()
    train = ad.compile(trainee.step)
    count = len(trainee.model.reducer.buckets)
    for _ in range(2):
        assert calls_of(comm, train, ad.ones(2, 3)) == count
        with trainee.model.no_sync():
            assert calls_of(comm, train, ad.ones(2, 3)) == 0
        trainee.model.require_backward_grad_sync = False
        assert calls_of(comm, train, ad.ones(2, 3)) == 0
        trainee.model.require_backward_grad_sync = True
    assert train.compilations == 2

    @ad.compile
    def accumulate(x: ad.Tensor) -> None:
        trainee.model.zero_grad()
        with trainee.model.no_sync():
            trainee.model(x).sum().backward()
        trainee.model(x).sum().backward()

    for _ in range(3):
        assert calls_of(comm, accumulate, ad.ones(2, 3)) == count
    assert accumulate.compilations == 1
    assert trainee.model.require_backward_grad_sync


def test_another_group_of_all_ranks_means_another_program(comm: MirrorCommunicator) -> None:
    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        total = x * 1.0
        dist.all_reduce(total)
        return total / dist.get_world_size() if dist.is_initialized() else total

    assert step(ad.ones(2)).tolist() == [1.0, 1.0]
    default_group.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        step(ad.ones(2))
    default_group._set_world(ProcessGroup(MirrorCommunicator(4), [0, 1, 2, 3], "gloo"))
    assert step(ad.ones(2)).tolist() == [1.0, 1.0]
    assert str(step.recompilations[-1]).startswith("step: the group of all ranks: ")
    assert len(comm.calls) == 1


def test_a_group_that_was_destroyed_is_refused(comm: MirrorCommunicator) -> None:
    trainee, pair = Trainee(), ProcessGroup(MirrorCommunicator(), [0, 1], "gloo")
    default_group._groups.append(pair)
    train = ad.compile(trainee.step)

    @ad.compile
    def reduce(x: ad.Tensor) -> ad.Tensor:
        total = x * 1.0
        dist.all_reduce(total, group=pair)
        return total

    train(ad.ones(2, 3))
    assert reduce(ad.ones(2)).tolist() == [2.0, 2.0]
    dist.destroy_process_group(pair)
    with pytest.raises(RuntimeError, match="all_reduce: the group was destroyed"):
        reduce(ad.ones(2))
    default_group.destroy_process_group()
    before = trainee.state()
    with pytest.raises(RuntimeError, match="all_reduce of gradients: the group was destroyed"):
        train(ad.ones(2, 3))
    assert all((a == b).all() for a, b in zip(before, trainee.state(), strict=True))


@pytest.mark.parametrize("asks", [False, True])
def test_a_step_whose_exchange_fails_leaves_parameters_and_moments(comm: MirrorCommunicator, asks: bool) -> None:
    trainee = Trainee(asks)
    train = ad.compile(trainee.step)
    for _ in range(3):
        train(ad.ones(2, 3))
    for number in range(len(trainee.model.reducer.buckets)):
        before = trainee.state()
        comm.fails_at = len(comm.calls) + number
        with pytest.raises(RuntimeError, match="the network is gone") as raised:
            train(ad.full((2, 3), 2.0))
        assert len(comm.calls) == comm.fails_at + 1  # the exchange that failed was the last
        assert asks or "in the compiled step: " in str(raised.value.__notes__)
        assert all((a == b).all() for a, b in zip(before, trainee.state(), strict=True))
    count = train.compilations
    train(ad.ones(2, 3))
    assert train.compilations == count


@pytest.mark.parametrize("compiled", [False, True])
def test_an_exchange_that_fails_behind_backward_is_raised_once(
    comm: MirrorCommunicator, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    monkeypatch.setenv("ADJOINT_OVERLAP", "1")
    trainee = Trainee()
    train = ad.compile(trainee.step) if compiled else trainee.step
    train(ad.ones(2, 3))
    before = trainee.state()
    monkeypatch.setattr(comm, "Allgather", lambda sent, received: comm._note(1 / 0))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            train(ad.ones(2, 3))
        assert all((a == b).all() for a, b in zip(before, trainee.state(), strict=True))
    monkeypatch.undo()
    monkeypatch.setenv("ADJOINT_OVERLAP", "1")
    train(ad.ones(2, 3))
    assert any((a != b).any() for a, b in zip(before, trainee.state(), strict=True))


def test_exchanges_stand_behind_backward_and_before_the_update(comm: MirrorCommunicator) -> None:
    trainee = Trainee()
    train = ad.compile(trainee.step)
    train(ad.ones(2, 3))
    entries = train.explain().entries
    ops = [[equation.op for equation in entry.equations] for entry in entries]
    backward = [
        i for i, entry in enumerate(entries) if "mm" in ops[i] and entry.origin is not None and entry.origin.backward
    ]
    starts = [i for i, names in enumerate(ops) if names == ["start_all_reduce"]]
    ends = [i for i, names in enumerate(ops) if names == ["finish_all_reduce"]]
    updates = [i for i, names in enumerate(ops) if "sqrt" in names and "div" in names]
    assert len(starts) == len(ends) == len(trainee.model.reducer.buckets) > 1
    assert starts[0] < backward[-1]
    assert max(starts) < min(ends)
    assert max(ends) < min(updates)
    assert all(entries[i].kind == "exchange" for i in (*starts, *ends))
    told = r"(start|finish)_all_reduce is exchanged by 2 ranks, \d+ bytes, \S+ ms, of which \S+ waited"
    assert all(re.fullmatch(told, entries[i].reason) for i in (*starts, *ends))
    line = next(line for line in inspect.getsource(Trainee.step).split("\n") if "backward" in line)
    assert all(line.strip() in linecache.getline(__file__, entries[i].origin.site.line) for i in starts)
    assert f", {2 * len(starts)} exchanges and 0 NumPy calls" in str(train.explain())


def test_explain_tells_sizes_and_times_of_other_exchanges(comm: MirrorCommunicator) -> None:
    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        total = x * 2.0
        dist.all_reduce(total)
        return total

    step(ad.ones(500, 500))
    (entry,) = [entry for entry in step.explain().entries if entry.kind == "exchange"]
    assert re.fullmatch(r"all_reduce is exchanged by 2 ranks, 1.0 MB, (\S+) ms, of which \1 waited", entry.reason)


LOGS = """
    import adjoint as ad
    import adjoint.distributed as dist
    from adjoint import nn

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    ad.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = ad.optim.SGD(model.parameters(), 0.1)
    best = {0: 1e9, 1: -1.0}[rank]


    @ad.compile
    def step(x):
        global best
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if loss.item() < best:  # the ranks answer otherwise, and one traces again while the other goes on
            best = loss.item()
        optimizer.step()
        if rank == 0:
            print(f"{loss.item():.6f}")
        return loss


    ad.manual_seed(5 + rank)
    for i in range(8):
        if i == 5:
            best = [0.0, 1e9][rank]
        step(ad.randn(3, 4))
    everywhere = [None, None]
    dist.all_gather_object(everywhere, [p.tolist() for p in model.parameters()])
    assert everywhere[0] == everywhere[1]
    assert step.compilations >= 2
    print("alike")
"""


@needs_mpi
def test_ranks_that_ask_and_answer_apart_stay_alike(tmp_path: Path) -> None:
    logged, silent = outputs(run_ranks(tmp_path, 2, LOGS))
    assert silent == "alike"
    assert len(logged.split("\n")) == 9


PLANNED = """
    import sys

    import adjoint as ad
    import adjoint.distributed as dist
    from adjoint import nn

    dist.init_process_group("gloo")
    ad.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)))
    optimizer = ad.optim.SGD(model.parameters(), 0.1, momentum=0.9)


    @ad.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss


    ad.manual_seed(dist.get_rank())
    losses = [step(ad.randn(4, 5)).item() for _ in range(3)]
    print("adjoint.compiler.pipeline" in sys.modules, losses)
"""


@needs_mpi
def test_a_second_run_of_ranks_plans_nothing(tmp_path: Path) -> None:
    where = {"ADJOINT_CACHE_DIR": str(tmp_path / "cache"), "ADJOINT_NO_CACHE": ""}
    first = outputs(run_ranks(tmp_path, 2, PLANNED, **where))
    second = outputs(run_ranks(tmp_path, 2, PLANNED, **where))
    assert all(line.startswith("True") for line in first)
    assert second == [line.replace("True", "False", 1) for line in first]
