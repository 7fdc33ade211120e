"""Stores answer as PyTorch's: each request, what waits for others, timeouts and bad requests."""

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import adjoint.distributed as dist

HOST = "127.0.0.1"
STORES: dict[str, Callable[[Path], dist.Store]] = {
    "hash": lambda _: dist.HashStore(),
    "file": lambda folder: dist.FileStore(str(folder / "store"), 1),
    "tcp": lambda _: dist.TCPStore(HOST, 0, None, True),
    "prefix": lambda _: dist.PrefixStore("a", dist.PrefixStore("b", dist.HashStore())),
    "prefix of tcp": lambda _: dist.PrefixStore("a", dist.TCPStore(HOST, 0, 1, is_master=True)),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dist.Store:
    made = STORES[request.param](tmp_path)
    made.set_timeout(timedelta(seconds=20))
    return made


def test_requests_have_pytorchs_answers(store: dist.Store) -> None:
    before = store.num_keys()
    assert store.set("a", "b") is None
    assert store.get("a") == b"b"
    store.set("a key\nof \\n two lines", b"\x00\xff\n")
    assert store.get("a key\nof \\n two lines") == b"\x00\xff\n"
    assert [store.add("n", 3), store.add("n", -5), store.get("n")] == [3, -2, b"-2"]
    assert [store.compare_set("k", *each) for each in [("", "x"), ("x", "y"), ("z", "w")]] == [b"x", b"y", b"y"]
    assert store.compare_set("none", "q", "w") == b"q"
    assert [store.check(keys) for keys in (["a", "k"], ["a", "none"], [])] == [True, False, True]
    assert [store.delete_key("a"), store.delete_key("a")] == [True, False]
    store.append("ends", "1")
    store.append("ends", "22")
    assert store.get("ends") == b"122"
    store.multi_set(["u", "v"], ["1", "2"])
    assert store.multi_get(["u", "v"]) == [b"1", b"2"]
    store.wait(["u", "v"])
    assert store.num_keys() == before + 6
    assert {"ends", "k", "n", "u", "v"} <= {key.rpartition("/")[2] for key in store.list_keys()}
    assert store.has_extended_api()


def test_queues_are_first_in_first_out(store: dist.Store) -> None:
    for value in ("1", b"\x00", "3"):
        store.queue_push("q", value)
    assert store.queue_len("q") == 3
    assert [store.queue_pop("q"), store.queue_pop("q", False)] == [b"1", b"\x00"]
    assert store.queue_pop("q", block=True) == b"3"
    assert store.queue_len("q") == 0
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", False)
    store.set_timeout(timedelta(milliseconds=20))
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 20ms, keys: .*q"):
        store.queue_pop("q")


def test_what_is_not_set_in_time_is_named(store: dist.Store) -> None:
    store.set_timeout(timedelta(milliseconds=30))
    assert store.timeout == timedelta(milliseconds=30)
    waits: list[tuple[Callable[[], object], int]] = [
        (lambda: store.get("late"), 30), (lambda: store.multi_get(["late"]), 30), (lambda: store.wait(["late"]), 30),
        (lambda: store.wait(["late"], timedelta(milliseconds=10)), 10),
    ]  # fmt: skip
    for wait, limit in waits:
        with pytest.raises(dist.DistStoreError, match=f"wait timeout after {limit}ms, keys: /.*late"):
            wait()
    with pytest.raises(dist.DistStoreError, match="must be of same size"):
        store.multi_set(["a"], ["1", "2"])
    store.set("word", "b")
    with pytest.raises(RuntimeError, match="invalid literal"):
        store.add("word", 1)
    assert store.get("word") == b"b"
    bad: list[Callable[[], object]] = [
        lambda: store.set("a", 3), lambda: store.get(3), lambda: store.wait("a"),  # type: ignore[arg-type]
    ]  # fmt: skip
    for call in bad:
        with pytest.raises(TypeError, match=r"a store's|a list of keys"):
            call()


def test_others_set_what_one_waits_for(store: dist.Store) -> None:
    other = store.clone()
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(other.get("late")))]
    threads += [threading.Thread(target=store.clone().barrier, args=("b", 3)) for _ in range(2)]
    for thread in threads:
        thread.start()
    store.set("late", "!")
    store.barrier("b", 3)
    for thread in threads:
        thread.join(20)
    assert found == [b"!"]


def test_prefixes_keep_keys_apart() -> None:
    whole = dist.HashStore()
    one, two = (dist.PrefixStore(name, whole) for name in ("one", "two"))
    one.set("a", "1")
    two.set("a", "2")
    assert [one.get("a"), two.get("a"), whole.get("one/a")] == [b"1", b"2", b"1"]
    assert one.underlying_store is whole
    assert dist.PrefixStore("three", one)._underlying_non_prefix_store is whole
    with pytest.raises(NotImplementedError, match="Store is a store without"):
        dist.Store().set("a", "b")
