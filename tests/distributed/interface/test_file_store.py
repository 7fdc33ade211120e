"""A file has the values for all who open it, and ranks meet by it, or by any store."""

from pathlib import Path

import pytest
from tests.support.ranks import free_ports, needs_mpi, outputs, run_ranks

import adjoint.distributed as dist

PROGRAM = """
    import os
    import sys

    import adjoint.run

    adjoint.run.stand_in()
    import torch
    import torch.distributed as dist

    how, place = sys.argv[1:]
    rank, count = int(os.environ.pop("RANK")), int(os.environ.pop("WORLD_SIZE"))
    del os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    if how == "file":
        dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=count)
    elif how == "query":
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{place}?rank={rank}&world_size={count}")
    else:
        store = dist.TCPStore("127.0.0.1", int(place), count, rank == 0)
        dist.init_process_group("gloo", store=dist.PrefixStore("meet", store), rank=rank, world_size=count)
        store.set(f"from {rank}", str(rank))
        assert store.get("from 1") == b"1"
    total = torch.ones(1)
    dist.all_reduce(total)
    print(total.item(), os.path.exists(place))
    if how == "store":
        store.barrier("end", count)
"""


@needs_mpi
@pytest.mark.parametrize("how", ["file", "query", "store"])
def test_ranks_meet_by_a_file_or_a_store(how: str, tmp_path: Path) -> None:
    place = str(tmp_path / "meeting") if how == "file" else str(free_ports())
    assert outputs(run_ranks(tmp_path, 2, PROGRAM, how, place)) == ["2.0 False"] * 2


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    one, two = dist.FileStore(path, 2), dist.FileStore(path, 2)
    one.set("a", b"\x00\xff")
    assert two.get("a") == b"\x00\xff"
    assert two.num_keys() == 2
    assert one.path == path
    with pytest.raises(dist.DistStoreError, match="No such file or directory"):
        dist.FileStore(str(tmp_path / "none" / "store"), 1)


def test_a_store_needs_rank_and_size() -> None:
    with pytest.raises(ValueError, match="Cannot specify both init_method and store"):
        dist.init_process_group(init_method="env://", store=dist.HashStore(), rank=0, world_size=1)
    with pytest.raises(ValueError, match="rank and world_size must be given with a store"):
        dist.init_process_group(store=dist.HashStore())
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()
