"""tools/network_hosts.py: ranks on hosts of their own have the losses of ranks on one, and a cut link ends all."""

import time
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.ranks import run_ranks, why_mpi_fails
from tools.network_hosts import NetworkHosts, measure, why_not, wire_seconds

nightly = pytest.mark.nightly
TRAINS = """
    import sys
    import adjoint as ad
    import adjoint.distributed as dist
    from datetime import timedelta

    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, endless = dist.get_rank(), "--endless" in sys.argv
    ad.manual_seed(0)
    model = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(50, 50))
    optimizer = ad.optim.AdamW(model.parameters())
    step = 0
    while endless or step < 10:
        optimizer.zero_grad()
        loss = (model(ad.full((4, 50), rank + 1.0)) - step).square().mean()
        loss.backward()
        optimizer.step()
        step += 1
        if step == 10 or not endless:
            print(step, loss.item().hex(), flush=True)
"""


@pytest.fixture(scope="module")
def namespaces() -> None:
    if reason := why_not() or why_mpi_fails():
        pytest.skip(reason)


def test_the_wire_carries_what_the_busiest_host_sends() -> None:
    assert wire_seconds(10_000_000, 2, "1gbit") == pytest.approx(0.08)
    assert wire_seconds(1_000_000, 4, "100mbit") == pytest.approx(0.12)


@nightly
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("count", [2, 4])
def test_hosts_have_the_losses_of_one_machine(count: int, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(dedent(TRAINS))
    with NetworkHosts(count, "1gbit") as network:
        statuses = [rank.wait(120) for rank in network.start_ranks([str(path)], tmp_path)]
        told = [(tmp_path / f"out{host}").read_text().strip() for host in range(count)]
    assert statuses == [0] * count, (tmp_path / "error0").read_text()
    (tmp_path / "one").mkdir()
    assert told == [done.out for done in run_ranks(tmp_path / "one", count, TRAINS)]


@nightly
@pytest.mark.usefixtures("namespaces")
def test_a_host_that_is_cut_off_is_named_and_all_end(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(dedent(TRAINS))
    with NetworkHosts(3) as network:
        ranks = network.start_ranks([str(path), "--endless"], tmp_path)
        while not all((tmp_path / f"out{host}").read_text() for host in range(3)):
            assert all(rank.poll() is None for rank in ranks)
            time.sleep(0.1)
        network.cut(2)
        for rank in ranks:
            assert rank.wait(60) == 75  # fifteen seconds on a machine that does nothing else
    errors = [(tmp_path / f"error{host}").read_text() for host in range(3)]
    for host in (0, 1):
        assert f"rank 2 on host2 cannot be reached any more; rank {host} waited in all_reduce" in errors[host]
    assert "the rendezvous beside rank 0 cannot be reached any more" in errors[2]


@nightly
@pytest.mark.usefixtures("namespaces")
def test_sums_of_two_hosts_are_as_fast_as_the_wire() -> None:
    assert measure(2, "1gbit")[10] < 1.3  # 1.06 on a machine that does nothing else
