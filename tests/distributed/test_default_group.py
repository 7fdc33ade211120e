"""Set-up of the group: what is missing is named, and one process needs neither MPI nor a launcher."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ranks import free_ports, needs_mpi, run_ranks
from tests.support.scripts import run

import adjoint as ad
import adjoint.distributed as dist
from adjoint.core.runtime.launcher_variables import count_processors


@pytest.fixture(autouse=True)
def without_group(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK", "SLURM_PROCID", "ADJOINT_JOB_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_one_process_is_a_group() -> None:
    dist.init_process_group("gloo", rank=0, world_size=1)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    group = dist.new_group([0])
    x, parts = ad.ones(2), [ad.zeros(2)]
    dist.all_gather(parts, x)
    assert parts[0].tolist() == [1.0, 1.0]
    model = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(2, 1))
    with model.no_sync():
        model(x).sum().backward()
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert dist.all_reduce(x, group=group) is None
    assert dist.all_reduce(x, async_op=True).wait()
    assert x.tolist() == [1.0, 1.0]
    dist.destroy_process_group(group)
    dist.destroy_process_group()
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        ({}, {}, "environment variable RANK expected, but not set"),
        ({}, {"RANK": "0"}, "environment variable WORLD_SIZE expected"),
        ({"rank": 0, "world_size": 2}, {}, "environment variable MASTER_ADDR expected"),
        ({"rank": 0, "world_size": 2}, {"MASTER_ADDR": "127.0.0.1"}, "environment variable MASTER_PORT expected"),
        ({"rank": 2, "world_size": 2}, {}, "rank 2 is not one of 2"),
        ({"rank": 0, "world_size": 1, "backend": "smoke"}, {}, "unknown backend 'smoke'"),
        ({"rank": 0, "world_size": 2, "init_method": "ftp://x"}, {}, "init_method 'ftp://x'"),
    ],
)
def test_what_is_missing_is_named(
    arguments: dict[str, object], variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        dist.init_process_group(**arguments)  # type: ignore[arg-type]
    assert not dist.is_initialized()


def test_a_network_needs_a_key() -> None:
    with pytest.raises(RuntimeError, match="set \\$ADJOINT_JOB_KEY to one secret"):
        dist.init_process_group("gloo", "tcp://10.0.0.1:4000", rank=1, world_size=2)


def test_without_a_group_calls_say_so() -> None:
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, lambda: dist.all_reduce(ad.ones(1))):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()
    assert dist.is_available()
    assert not dist.is_nccl_available()


def test_samplers_take_rank_and_size_from_the_group() -> None:
    assert ad.data.DistributedSampler(range(4)).num_replicas == 1
    dist.init_process_group("gloo", rank=0, world_size=1)
    assert ad.data.DistributedSampler(range(4)).rank == 0


SPAWNS = """
    import os, sys

    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp

    def train(rank, count, port, fails):
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
        for name in [name for name in os.environ if name.endswith("_NUM_THREADS")]:
            del os.environ[name]
        torch.set_num_threads(64)
        dist.init_process_group("gloo", rank=rank, world_size=count)
        if fails and rank:
            raise ValueError("bad input")
        x = torch.full((3,), rank + 1.0)
        dist.all_reduce(x)
        os.write(1, f"{x.tolist()} {torch.get_num_threads()}\\n".encode())  # at once: two ranks write
        dist.destroy_process_group()

    if __name__ == "__main__":
        for i, method in enumerate(("fork", "spawn")):
            mp.start_processes(train, (2, str(int(sys.argv[1]) + i), False), nprocs=2, start_method=method)
        try:
            mp.spawn(train, (2, str(int(sys.argv[1]) + 2), True), nprocs=2)
        except mp.ProcessRaisedException as error:
            print(error.error_index)
"""


@needs_mpi
def test_processes_that_the_program_starts_are_ranks_and_share_processors(tmp_path: Path) -> None:
    done = run(tmp_path, "script.py", str(free_ports(3)), script=SPAWNS)
    assert done.out.splitlines() == [f"[3.0, 3.0, 3.0] {max(1, count_processors() // 2)}"] * 4 + ["1"], done.error


@needs_mpi
def test_a_group_is_set_up_again_and_errors_after_it_end_all(tmp_path: Path) -> None:
    program = """
    import adjoint as ad
    import adjoint.distributed as dist

    for _ in range(2):
        dist.init_process_group("gloo")
        rank, x = dist.get_rank(), ad.ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [2.0, 2.0]
        dist.destroy_process_group()
    if rank:
        raise KeyError("here")
    """
    done = run_ranks(tmp_path, 2, program)
    assert done[1].status == 1
    assert done[1].error.endswith("adjoint: rank 1 ended with KeyError, and the others end with it")
