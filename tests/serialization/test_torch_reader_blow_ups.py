"""Files of PyTorch in which little stands for much, or in which sound parts are put together wrongly."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.files.streams import joined, memory_peak, saved

import adjoint as ad
from adjoint import nn, optim, serialization
from adjoint.serialization import FileError, get_unsafe_globals_in_checkpoint, load, safe_globals
from adjoint.serialization.torch_reader import MAGIC
from adjoint.serialization.zip_archive import Archive, write_archive


@pytest.fixture(autouse=True, scope="module")
def first_uses() -> None:
    """Import what the first file and the first refused file need, which counts as none of the memory of the others."""
    load(io.BytesIO(archive(b"\x80\2" + tensor(b"ComplexFloatStorage", 1, 1, 1, CONJUGATE) + b".")))
    pickled, message = BOMBS["a key of parts of parts"]
    assert_raises(FileError, message, lambda: load(io.BytesIO(archive(b"\x80\2" + pickled))))


def archive(pickled: bytes, storage: bytes = bytes(8)) -> bytes:
    return joined(write_archive([("x/data.pkl", pickled), ("x/data/0", storage)]))


def tensor(kind: bytes, count: int, size: int, stride: int, metadata: bytes = b"") -> bytes:
    """The part of a pickle that makes a vector."""
    storage = (
        b"(X\7\0\0\0storagectorch\n" + kind + b"\nX\1\0\0\0" + b"0X\3\0\0\0cpuJ" + count.to_bytes(4, "little") + b"tQ"
    )
    shape = b"J" + size.to_bytes(4, "little") + b"\x85J" + stride.to_bytes(4, "little") + b"\x85"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + shape + b"\x89}" + metadata + b"tR"


CONJUGATE = b"}X\4\0\0\0conj\x88s"
TEXT = b"\x8b\x40\x9c\0\0" + b"\1" * 40_000  # a number of 40,000 bytes
SWAPPED = (
    b"cnumpy.core.multiarray\n_reconstruct\nq\1)q\2R(K\1J\x10\x27\0\0\x85cnumpy\ndtype\nX\2\0\0\0f8\x89\x88\x87R"
    b"(K\3X\1\0\0\0>NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89B\x80\x38\1\0" + bytes(80_000) + b"tq\3b"
)
PAIRS = b"](" + b"".join(b"M" + i.to_bytes(2, "little") + b"N\x86" for i in range(2000)) + b"e\x85q\2"
AGAIN = "copies the same values again and again"
BOMBS = {
    "arrays of NumPy": (b"(" + SWAPPED + b"h\1h\2Rh\3b" * 500 + b"t.", AGAIN),
    "dicts": (b"(" + PAIRS + b"ccollections\nOrderedDict\nq\3" + b"h\3h\2R" * 5000 + b"t.", AGAIN),
    "text": (b"(X\x40\x9c\0\0" + b"a" * 40_000 + b"q\1c_codecs\nencode\nq\2" + b"h\2h\1\x85R" * 5000 + b"t.", AGAIN),
    "keys of many parts": (b"}(" + b"N" * 150 + b"tq\1Ns" + b"h\1Ns" * 5000 + b".", AGAIN),
    "keys that are long numbers": (b"}" + TEXT + b"q\1Ns" + b"h\1Ns" * 50_000 + b".", AGAIN),
    "a key of very many parts": (b"}(" + b"N" * 9000 + b"tNs.", "a tuple is a key"),
    "a key of parts of parts": (b"})" + b"2\x86" * 12 + b"Ns.", "a tuple is a key"),
    "many conjugates": (
        b"("
        + b"".join(
            tensor(b"UntypedStorage", 8, 0, 0).replace(b"v2", b"v3")[:-2]
            .replace(b"\x89}", b"\x89}ctorch\n" + kind + b"\n" + CONJUGATE) + b"tR"
            for kind in (b"complex64", b"float32", b"int16", b"int8")
        )
        + b"t.",
        "in too many types",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_what_grows_is_refused(name: str) -> None:
    pickled, message = BOMBS[name]
    data = archive(b"\x80\2" + pickled)
    with memory_peak() as peak:
        assert_raises(FileError, message, lambda: load(io.BytesIO(data)))
    assert peak[0] < 1_000_000 + 80 * len(data)


def test_a_broad_view_is_conjugated_where_it_lies() -> None:
    pickled = tensor(b"ComplexFloatStorage", 1, 2**24, 0, CONJUGATE)
    data = archive(b"\x80\2(" + pickled * 2 + b"t.", np.complex64(1 + 2j).tobytes())
    with memory_peak() as peak:
        one, other = load(io.BytesIO(data))
    assert (one.shape, one[5].item()) == ((2**24,), 1 - 2j)
    assert peak[0] < 100_000
    one[:1].fill_(3)
    assert other[7].item() == 3  # views of one memory still


def test_bools_seen_through_bytes() -> None:
    pickled = tensor(b"UntypedStorage", 8, 8, 1).replace(b"v2", b"v3").replace(b"\x89}tR", b"\x89}ctorch\nbool\ntR")
    pickled = pickled.replace(b"torch\nUntyped", b"torch.storage\nUntyped")
    assert load(io.BytesIO(archive(b"\x80\2" + pickled + b"."))).tolist() == [False] * 8
    with pytest.raises(FileError, match="neither 0 nor 1"):
        load(io.BytesIO(archive(b"\x80\2" + pickled + b".", b"\0\1\0\1\0\1\0\2")))


def test_streams_that_begin_oddly() -> None:
    head = pickle.dumps(MAGIC, 2)
    many = pickle.dumps(np.zeros(3), 2)
    for data, message in (
        (head + pickle.dumps(10**5000, 2), "not of version 1001"),
        (head + many, "not of version 1001"),
        (many, "but none of torch.save"),
    ):
        with pytest.raises(FileError, match=message):
            load(io.BytesIO(data))


def test_records_of_ours_that_are_exchanged_or_missing() -> None:
    found = Archive(saved([ad.ones(3), ad.zeros(3)]))
    records = {name: found.read(name) for name in found.records}
    swapped = records | {"archive/data/0": records["archive/data/1"], "archive/data/1": records["archive/data/0"]}
    fewer = {name: data for name, data in records.items() if name != "archive/byteorder"}
    for wrong in (swapped, fewer, records | {"archive/more": b"1"}):
        with pytest.raises(FileError, match="records are missing, added or exchanged"):
            load(io.BytesIO(joined(write_archive(wrong.items()))))
    unsealed = {name: data for name, data in records.items() if not name.endswith(".checksum")}
    zipped = dict(reversed(records.items())) | {"archive/": b""}  # as tools for archives write them anew
    for sound in (records, unsealed, zipped):
        assert load(io.BytesIO(joined(write_archive(sound.items()))))[0].tolist() == [1, 1, 1]


def test_messages_are_fit_for_a_screen() -> None:
    for name in ("\x1b[2J", "x" * 100_000, "\n\n", "\u202eabc"):
        text = name.encode()
        pickled = b"\x80\4X\2\0\0\0osX" + len(text).to_bytes(4, "little") + text + b"\x93."
        for module in (b"os", b"ab"):
            with pytest.raises(FileError) as caught:
                load(io.BytesIO(archive(pickled.replace(b"os", module))))
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 1000


def test_files_without_checksums_are_read() -> None:
    torch = pytest.importorskip("torch")
    torch.serialization.set_crc32_options(False)
    try:
        file = saved([torch.arange(3.0)], torch)
    finally:
        torch.serialization.set_crc32_options(True)
    assert load(file)[0].tolist() == [0, 1, 2]


def test_what_to_do_with_what_is_whole() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(1, 1)
    for value, message in (
        (layer, r"a module of PyTorch whole: save its state_dict\(\)"),
        (torch.optim.SGD(layer.parameters()), r"an optimizer or a schedule whole: save its state_dict\(\)"),
    ):
        for weights_only in (True, False):
            assert_raises(FileError, message, load, saved(value, torch), weights_only=weights_only)
    ours = nn.Linear(1, 1)
    for whole, message in (
        (ours, r"load\(\.\.\., weights_only=False\) allows classes that are imported"),
        (optim.SGD(ours.parameters()), r"an optimizer or a schedule whole: save its state_dict\(\)"),
    ):
        assert_raises(FileError, message, load, saved(whole))


@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW, optim.Adagrad, optim.LBFGS])
def test_a_trusted_file_has_a_whole_optimizer(kind: Any) -> None:
    module = nn.Linear(2, 1)
    optimizer = kind(module.parameters(), lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = module(ad.ones(1, 2)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    file = saved({"module": module, "optimizer": optimizer})
    with pytest.raises(FileError):
        load(file)
    file.seek(0)
    read = load(file, weights_only=False)
    again = read["optimizer"]
    assert type(again) is kind
    assert again.param_groups[0]["params"][0] is read["module"].weight
    assert str(again.state_dict()) == str(optimizer.state_dict())
    again.step(lambda: ad.zeros(1))


class Mine:
    pass


@pytest.mark.parametrize("options", [{}, {"pickle_protocol": 4}])
def test_unsafe_names_are_listed(options: dict[str, Any], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    value = {"a": torch.ones(2), "b": Mine(), "c": [print, np.zeros(1), slice], "d": Mine()}
    torch.save(value, tmp_path / "x", **options)
    found = get_unsafe_globals_in_checkpoint(tmp_path / "x")
    assert found == [*sorted(["builtins.print", "builtins.slice", f"{__name__}.Mine"])]
    if not options:  # protocol 4 PyTorch does not read
        theirs = torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x")
        assert found == sorted(name.replace("__builtin__", "builtins") for name in theirs if "numpy" not in name)
    torch.save(value, tmp_path / "old", _use_new_zipfile_serialization=False, **options)
    with open(tmp_path / "old", "rb") as file:
        assert get_unsafe_globals_in_checkpoint(file) == found
        assert file.tell() == 0
    with safe_globals([Mine, print, slice]):
        assert get_unsafe_globals_in_checkpoint(tmp_path / "x") == []
    (tmp_path / "bad").write_bytes(b"\x80\2c")
    assert_raises(FileError, "the pickle is damaged", lambda: get_unsafe_globals_in_checkpoint(tmp_path / "bad"))
    assert "get_unsafe_globals_in_checkpoint" in serialization.__all__
