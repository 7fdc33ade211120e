"""Files that do not say their byte order are read in the one that was set, little unless told."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

import adjoint as ad
from adjoint.serialization import LoadEndianness, get_default_load_endianness, set_default_load_endianness


def without_order(value: Any, swap: bool) -> io.BytesIO:
    """What `save` writes, less the record of the byte order; its storages in the other one if `swap`."""
    written, out = io.BytesIO(), io.BytesIO()
    ad.save(value, written)
    with zipfile.ZipFile(written) as old, zipfile.ZipFile(out, "w") as new:
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
