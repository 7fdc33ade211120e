"""Loading as the program says: byte orders that files leave out, shared mapping, and PyTorch's variables about code."""

import io
import mmap
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.support.errors import assert_raises
from tests.support.files.streams import saved

import adjoint as ad
from adjoint.serialization import (
    LoadEndianness,
    get_default_load_endianness,
    get_default_mmap_options,
    set_default_load_endianness,
    set_default_mmap_options,
)


def without_order(value: Any, swap: bool) -> io.BytesIO:
    """What `save` writes, less the record of the byte order; its storages in the other one if `swap`."""
    out = io.BytesIO()
    with zipfile.ZipFile(saved(value)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if swap and "/data/" in name:
                data = b"".join(data[i : i + 4][::-1] for i in range(0, len(data), 4))
            if name.endswith(("/data.pkl", "/version")) or "/data/" in name:
                new.writestr(name, data)
    out.seek(0)
    return out


@pytest.mark.parametrize(
    ("chosen", "swap"), [(None, False), (LoadEndianness.LITTLE, False), (LoadEndianness.BIG, True)]
)
def test_order_that_was_set(chosen: LoadEndianness | None, swap: bool) -> None:
    x = ad.tensor([1.0, -2.5])
    before = get_default_load_endianness()
    assert before is None
    set_default_load_endianness(chosen)
    try:
        assert get_default_load_endianness() is chosen
        assert ad.load(without_order(x, swap)).tolist() == [1.0, -2.5]
        assert ad.load(without_order(x, not swap)).tolist() != [1.0, -2.5]
    finally:
        set_default_load_endianness(before)


def test_only_orders_can_be_set() -> None:
    with pytest.raises(TypeError, match="Invalid argument type in function set_default_load_endianness"):
        set_default_load_endianness("big")  # type: ignore[arg-type]


def test_shared_files_take_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    ad.save({"x": ad.tensor([1.0, 2.0])}, path)
    ad.load(path, mmap=True)["x"][0] = 5
    assert ad.load(path, mmap=True)["x"].tolist() == [1, 2]
    with set_default_mmap_options(mmap.MAP_SHARED):
        assert get_default_mmap_options() == mmap.MAP_SHARED
        ad.load(path, mmap=True)["x"][0] = 5
        assert ad.load(path, mmap=True)["x"].tolist() == [5, 2]
    assert get_default_mmap_options() == mmap.MAP_PRIVATE
    assert_raises(RuntimeError, "the file is damaged", ad.load, path)


def test_mapping_is_shared_from_a_call_on() -> None:
    set_default_mmap_options(mmap.MAP_SHARED)
    try:
        assert get_default_mmap_options() == mmap.MAP_SHARED
    finally:
        set_default_mmap_options(mmap.MAP_PRIVATE)
    assert_raises(ValueError, r"expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got 64", set_default_mmap_options, 64)


def test_variables_say_whether_files_may_name_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(**given: Any) -> Any:
        return ad.load(saved(ad.nn.Linear(2, 1)), **given)

    refused = pytest.raises(pickle.UnpicklingError, match="Weights only load failed")
    with refused:
        load()
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert type(load()) is ad.nn.Linear
    with refused:
        load(weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    assert_raises(RuntimeError, "Only one of TORCH_FORCE_WEIGHTS_ONLY_LOAD", load)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with refused:
        load(weights_only=False)


class Stream:
    """Hands out bytes, and nothing else that a file has."""

    def __init__(self, data: bytes, *more: str) -> None:
        inner = io.BytesIO(data)
        for name in ("read", *more):
            setattr(self, name, getattr(inner, name))


def test_files_must_be_seekable_but_need_no_more() -> None:
    file = saved(ad.ones(2))
    with pytest.raises(AttributeError, match=r"You can only torch\.load from a file that is seekable"):
        ad.load(Stream(file.getvalue()))  # type: ignore[arg-type]
    for more in ((), ("readinto",)):
        assert ad.load(Stream(file.getvalue(), "seek", "tell", *more)).tolist() == [1, 1]  # type: ignore[arg-type]
    assert_raises(AttributeError, "with a 'write' attribute, not a Tensor", lambda: ad.save("text", ad.ones(2)))
