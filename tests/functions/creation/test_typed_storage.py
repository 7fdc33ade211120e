"""Storages: memory by itself, its types and copies, and tensors over it."""

import copy
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad


def test_a_storage_has_the_type_of_its_tensor() -> None:
    x: Any = ad.randint(-5, 5, (4,))
    assert (x.storage().dtype, x.storage().tolist()) == (ad.int64, x.tolist())


def test_casts_and_copies() -> None:
    storage = ad.IntStorage([-1, 0, 300])
    assert storage.type().endswith(".IntStorage")
    assert (storage.float().tolist(), storage.long().dtype) == ([-1.0, 0.0, 300.0], ad.int64)
    assert storage.int() is storage
    twin = storage.clone()
    twin[0] = 7
    assert storage[0] == -1
    assert ad.IntStorage(3).copy_(storage).tolist() == [-1, 0, 300]
    with pytest.raises(RuntimeError, match="size does not match, self was 2 but source was 3"):
        ad.IntStorage(2).copy_(storage)
    assert ad.Storage is ad.FloatStorage


def test_a_deep_copy_shares_what_was_shared() -> None:
    storage: Any = ad.ones(3).storage()
    first, second = copy.deepcopy([storage, storage])
    first[0] = 5.0
    assert (second[0], storage[0]) == (5.0, 1.0)


def test_a_deep_copy_of_tensors_shares_what_was_shared() -> None:
    a = ad.randn(5, 5)
    b = ad.randn(2, 3, 4, 5).contiguous(memory_format=ad.channels_last)
    row, column, memory, lying = copy.deepcopy([a[1], a[:, 0], a.storage(), b])
    row[0] = 7.0
    assert column[1] == 7.0
    assert memory[5] == 7.0
    assert a[1, 0] != 7.0
    assert lying.stride() == b.stride()
    assert lying.equal(b)
    assert copy.deepcopy(a[1:1]).shape == (0, 5)


def test_a_tensor_of_a_storage() -> None:
    x = ad.arange(6.0)
    assert ad.tensor(x.storage()).equal(x)
    assert ad.tensor(x.untyped_storage(), dtype=ad.float32).equal(x)
    with pytest.raises(RuntimeError, match="Expected a Storage of type Long or an UntypedStorage, but got Float"):
        ad.tensor(x.storage(), dtype=ad.int64)


def test_the_kind_of_a_storage_and_whether_it_may_grow() -> None:
    x = ad.ones(3)
    assert x.storage_type() is ad.FloatStorage
    assert isinstance(x.storage(), x.storage_type())
    assert x.untyped_storage().resizable()
    seen = x.numpy()
    assert not x.untyped_storage().resizable()
    assert seen.shape == (3,)


def test_from_a_buffer() -> None:
    data = bytearray([1, 2, 3, 4])
    assert ad.ByteStorage.from_buffer(data).tolist() == [1, 2, 3, 4]
    assert ad.ShortStorage.from_buffer(data, "big").tolist() == [258, 772]
    assert ad.IntStorage.from_buffer(data, "little")[0] == 67305985
    assert ad.BoolStorage.from_buffer(bytearray([0, 7])).tolist() == [False, True]


def test_bytes_in_the_other_order() -> None:
    storage: Any = ad.ByteStorage(list(range(8))).untyped()
    storage.byteswap(ad.int32)
    assert storage.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_a_file(tmp_path: Path) -> None:
    name = str(tmp_path / "numbers")
    storage = ad.FloatStorage.from_file(name, True, 4)
    x = ad.FloatTensor(storage)
    x.fill_(2.5)
    assert storage.filename == name
    assert ad.FloatStorage.from_file(name, True, 4).tolist() == [2.5] * 4
    assert ad.ones(2).untyped_storage().filename is None


def test_a_storage_of_another_type_is_refused() -> None:
    x: Any = ad.ones(2)
    with pytest.raises(RuntimeError, match="Expected a Storage of type float32 but got type float64"):
        x.set_(ad.ones(2, dtype=ad.float64).storage())
    with pytest.raises(TypeError, match="expected a tensor of float32"):
        ad.FloatTensor(ad.ones(2, dtype=ad.int64))
