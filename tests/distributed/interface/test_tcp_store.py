"""A store's master tells who does not come, and where nobody answers."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import adjoint.distributed as dist

HOST = "127.0.0.1"
SHORT = timedelta(milliseconds=100)


def test_the_master_waits_for_all() -> None:
    master = dist.TCPStore(HOST, 0, is_master=True)
    assert master.port > 0
    assert master.host == HOST
    with pytest.raises(dist.DistStoreError, match=r"waiting for clients\. 1/2 clients joined"):
        dist.TCPStore(HOST, 0, 2, True, SHORT)
    with pytest.raises(dist.DistNetworkError, match=r"cannot listen at 127\.0\.0\.1"):
        dist.TCPStore(HOST, master.port, is_master=True)
    client = dist.TCPStore(HOST, master.port, 2)
    client.set("a", "b")
    assert master.get("a") == b"b"
    assert master.num_keys() == 2
    assert "TCPStore" in repr(client)


def test_all_come() -> None:
    port = dist.TCPStore(HOST, 0, is_master=True).port  # free again when the store has ended
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(dist.TCPStore, HOST, port, 2, rank == 0) for rank in range(2)]
        assert [each.result(20).num_keys() for each in made] == [1, 1]


def test_a_store_that_is_not_there() -> None:
    with pytest.raises(dist.DistNetworkError, match="timed out after 100ms while trying to connect to"):
        dist.TCPStore(HOST, 1, timeout=SHORT)
    with pytest.raises(RuntimeError, match="ADJOINT_JOB_KEY"):
        dist.TCPStore("192.0.2.1", 1, timeout=SHORT)
    master = dist.TCPStore(HOST, 0, is_master=True)
    client = master.clone()
    del master
    with pytest.raises(dist.DistNetworkError, match="has closed the connection"):
        [client.add("a", 1) for _ in range(1000)]
