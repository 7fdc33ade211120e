"""Storages in files: they come back as they were, share their memory with tensors, and go to PyTorch and back."""

import io
from typing import Any

import pytest

import adjoint as ad
from adjoint.functions.creation.typed_storage import TypedStorage, UntypedStorage


def again(value: Any, save: Any = ad.save, load: Any = ad.load, **options: Any) -> Any:
    file = io.BytesIO()
    save(value, file)
    file.seek(0)
    return load(file, **options)


def test_shared_with_tensors() -> None:
    x = ad.arange(6, dtype=ad.float32).view(2, 3)
    tensor, typed, twice = again([x, x.storage(), x[1:].storage()])
    assert isinstance(typed, TypedStorage)
    assert (typed.dtype, typed.tolist()) == (ad.float32, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    typed.fill_(7.0)
    assert tensor.tolist() == [[7.0] * 3] * 2
    assert twice == typed == tensor.storage()


def test_bytes() -> None:
    found = again(ad.tensor([1, 256], dtype=ad.int16).untyped_storage())
    assert isinstance(found, UntypedStorage)
    assert found.tolist() == [1, 0, 0, 1]
    x = ad.ones(2)
    tensor, raw = again([x, x.untyped_storage()])
    assert tensor.tolist() == [1.0, 1.0]
    assert raw.nbytes() == 8


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_to_pytorch_and_back() -> None:
    torch = pytest.importorskip("torch")
    x = ad.tensor([1.5, -2.0])
    typed, raw = again([x.storage(), x.untyped_storage()], load=torch.load, weights_only=True)
    assert isinstance(typed, torch.storage.TypedStorage)
    assert (typed.dtype, typed.tolist()) == (torch.float32, [1.5, -2.0])
    assert raw.tolist() == x.untyped_storage().tolist()
    found = again(torch.tensor([3.0, 4.0]).storage(), save=torch.save)
    assert (found.dtype, found.tolist()) == (ad.float32, [3.0, 4.0])


def test_elements_are_written_in_place() -> None:
    x = ad.zeros(2, 2)
    x.storage()[1] = 3.0
    x.untyped_storage()[0:4] = [0, 0, 128, 63]
    assert x.tolist() == [[1.0, 3.0], [0.0, 0.0]]
    assert (x.storage().element_size(), x.storage().untyped().element_size()) == (4, 1)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("name", ["Float", "Double", "Half", "BFloat16", "Long", "Bool", "ComplexFloat"])
def test_made_by_type(name: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(ad, f"{name}Storage")
    made = kind(3).fill_(1)
    assert isinstance(made, kind)
    assert isinstance(made, TypedStorage)
    assert not isinstance(made, ad.IntStorage)
    assert str(made.dtype).rpartition(".")[2] == str(getattr(torch, f"{name}Storage").dtype).rpartition(".")[2]
    assert made.tolist() == [1, 1, 1]
    assert kind([1, 0]).tolist() == [1, 0]
    assert len(kind()) == 0
