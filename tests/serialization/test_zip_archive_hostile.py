"""PyTorch's files made to mislead: each gives a clear error or the data it holds, runs nothing, takes little memory."""

import io
import os
import pickle
import pickletools
import random
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from tests.support.files.streams import joined, memory_peak

import adjoint as ad
from adjoint.serialization import FileError, SafetensorsError, add_safe_globals, clear_safe_globals, load, save
from adjoint.serialization.zip_archive import Archive, write_archive

STORAGE = b"((X\x07\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" + b"0X\3\0\0\0cpuK\2tQ"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n" + STORAGE


def archive(pickled: bytes, **records: bytes) -> bytes:
    """A file with this pickle, and a storage of two float32 unless others are given."""
    parts = {"data.pkl": pickled, "version": b"3\n", "data/0": bytes(8)} | {
        name.replace("__", "/"): data for name, data in records.items()
    }
    return joined(write_archive((f"x/{name}", data) for name, data in parts.items()))


def tensor(offset: int = 0, size: Any = (2,), stride: Any = (1,), storage: bytes = STORAGE) -> bytes:
    """The pickle of a tensor with these parts."""
    parts = b"".join(pickle.dumps(part, 2)[2:-1] for part in (offset, size, stride, False))
    return b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n" + storage + parts + b"ccollections\nOrderedDict\n)RtR."


def storage(kind: bytes = b"FloatStorage", key: bytes = b"0", count: int = 2) -> bytes:
    named = b"X" + struct.pack("<I", len(key)) + key
    return b"((X\7\0\0\0storagectorch\n" + kind + b"\n" + named + b"X\3\0\0\0cpuJ" + struct.pack("<i", count) + b"tQ"


def simple() -> bytes:
    file = io.BytesIO()
    save({"a": ad.arange(40.0), "b": [ad.ones(3, dtype=ad.int16), OrderedDict(x=1, y="text")]}, file)
    return file.getvalue()


def rezipped(**options: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as target, zipfile.ZipFile(io.BytesIO(simple())) as source:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return file.getvalue()


def overlapping() -> bytes:
    """Two entries of the directory that lead to the same bytes."""
    data = archive(tensor(), data__1=b"1" * 8)
    found = Archive(io.BytesIO(data)).records
    places = [found["x/version"].begin + 2, found["x/data/0"].begin + 8]
    assert data.count(struct.pack("<I", places[1])) == 1
    return data.replace(struct.pack("<I", places[1]), struct.pack("<I", places[0]))


class Attack:
    """What its pickle asks for is a call."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], tuple(self.call[1:])


MARKER = "adjoint-was-here"
CALLS = {
    "os.system": Attack(os.system, f"touch {MARKER}"),
    "eval": Attack(eval, f"open({MARKER!r}, 'w')"),
    "exec": Attack(exec, f"open({MARKER!r}, 'w')"),
    "open": Attack(open, MARKER, "w"),
    "Popen": Attack(subprocess.Popen, ["touch", MARKER]),
    "getattr": Attack(getattr, "text", "upper"),
    "import": Attack(__import__, "os"),
    "load itself": Attack(load, MARKER),
    "save itself": Attack(save, 1, MARKER),
    "nested": OrderedDict(a=[{"b": Attack(os.mkdir, MARKER)}]),
    "numpy": Attack(np.save, MARKER, 1),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("weights_only", [None, True, False])
def test_no_call_is_made(name: str, protocol: int, weights_only: Any, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps(CALLS[name], protocol)
    for data in (archive(pickled), stream(pickled)):
        with pytest.raises(FileError, match=r"(Unsupported global: GLOBAL|is blocked: it could run code)"):
            load(io.BytesIO(data), weights_only=weights_only)
    with pytest.raises(FileError, match=r"this is a Python pickle, but none of torch\.save|Unsupported|blocked"):
        load(io.BytesIO(pickled), weights_only=weights_only)
    assert os.listdir() == []


def stream(pickled: bytes) -> bytes:
    """A file as before PyTorch 1.6 around a pickle."""
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    return b"".join(pickle.dumps(part, 2) for part in head) + pickled + pickle.dumps([], 2)


def test_blocked_modules_stay_so() -> None:
    add_safe_globals([os.system])
    try:
        with pytest.raises(FileError, match=r"unsupported GLOBAL \w+\.system whose module \w+ is blocked"):
            load(io.BytesIO(archive(pickle.dumps(CALLS["os.system"], 2))))
    finally:
        clear_safe_globals()


def test_references_to_functions_cannot_be_called_by_trusted_files() -> None:
    for function in (ad.relu, ad.nn.functional.relu):
        pickled = pickle.dumps(Attack(function, 1), 2)
        with pytest.raises(FileError, match="the pickle calls relu, which is not allowed"):
            load(io.BytesIO(archive(pickled)), weights_only=False)


DEEP = b"\x80\2" + b")" + b"\x85" * 100_000
HUGE = 2**62
ARRAY = pickletools.optimize(pickle.dumps(np.zeros(2), 4)).replace(b"numpy.core", b"numpy._core")
SCALAR = pickletools.optimize(pickle.dumps(np.float64(1), 4)).replace(b"numpy.core", b"numpy._core")
HOSTILE: dict[str, tuple[bytes, str]] = {
    # the container
    "nothing of an archive": (b"PK\3\4", "no directory at its end"),
    "an empty archive": (b"PK\3\4" + b"PK\5\6" + bytes(18), "does not end where"),
    "no pickle": (joined(write_archive([("x/y", b"")])), "none of torch.save"),
    "two folders": (joined(write_archive([("x/data.pkl", b"N."), ("y/data.pkl", b"N.")])), "in its one folder"),
    "a program": (archive(b"\x80\2N.", constants__pkl=b"").replace(b"constants/pkl", b"constants.pkl"), "torch.jit"),
    "npz": (joined(write_archive([("a.npy", b"1")])), r"NumPy \.npz archive"),
    "compressed": (rezipped(compression=zipfile.ZIP_DEFLATED), "compressed or encrypted"),
    "a bomb": (rezipped(compression=zipfile.ZIP_LZMA), "compressed or encrypted"),
    "overlapping records": (overlapping(), "overlap|does not agree"),
    "bytes behind": (simple() + b"x", "bytes follow the end|no directory"),
    "byte order": (archive(b"\x80\2N.", byteorder=b"middle"), "neither little nor big"),
    "a record twice": (joined(write_archive([("x/data.pkl", b"N."), ("x/data.pkl", b"N.")])), "twice"),
    # storages
    "a missing storage": (archive(tensor(storage=storage(key=b"7"))), "no record 'x/data/7'"),
    "a storage elsewhere": (archive(tensor(storage=storage(key=b"../version"))), "no record"),
    "a storage too short": (archive(tensor(storage=storage(count=3))), "of 12 bytes is announced, but it has 8"),
    "a storage too long": (archive(tensor(storage=storage(count=1))), "of 4 bytes is announced, but it has 8"),
    "a negative storage": (archive(tensor(storage=storage(count=-2))), "outside of it that is no storage"),
    "half an element": (archive(tensor(), data__0=bytes(7)), "no whole number of elements"),
    "an unknown storage": (archive(tensor(storage=storage(b"QInt8Storage"))), "Unsupported global: GLOBAL torch.QInt8"),
    "a bool of two": (archive(tensor(storage=storage(b"BoolStorage")), data__0=b"\1\2"), "neither 0 nor 1"),
    "an id that is text": (archive(b"\x80\2X\1\0\0\0aQ."), "outside of it that is no storage"),
    # tensors
    "beyond the storage": (archive(tensor(1)), "needs 3 elements, but the storage has 2"),
    "strides beyond": (archive(tensor(0, (2,), (2,))), "needs 3 elements"),
    "a negative offset": (archive(tensor(-1)), "from 0 to 2"),
    "a negative size": (archive(tensor(0, (-2,))), "from 0 to 2"),
    "a negative stride": (archive(tensor(1, (2,), (-1,))), "from 0 to 2"),
    "a size of text": (archive(tensor(0, ("2",))), "from 0 to 2"),
    "a size of truth": (archive(tensor(0, (True,))), "from 0 to 2"),
    "sizes without strides": (archive(tensor(0, (2,), ())), "1 sizes and 0 strides"),
    "many dimensions": (archive(tensor(0, (1,) * 65, (1,) * 65)), "at most 64"),
    "a huge view": (archive(tensor(0, (HUGE, 8), (0, 0))), "overflows"),
    "a huge offset": (archive(tensor(HUGE)), "needs"),
    "a huge size": (archive(tensor(0, (HUGE,), (HUGE,))), "overflows|needs"),
    "a tensor of no storage": (archive(tensor(storage=b"(N")), "is something else"),
    "a sparse tensor": (archive(b"\x80\2ctorch._utils\n_rebuild_sparse_tensor\nNN\x86R."), "other parts than indices"),
    # the pickle
    "no pickle at all": (archive(b""), "damaged near byte 0"),
    "an endless pickle": (archive(b"\x80\2N"), "damaged near byte 3"),
    "protocol nine": (archive(b"\x80\x09N."), "of protocol 9"),
    "two values": (archive(b"\x80\2NN."), "ends with 2 values"),
    "bytes after it": (archive(b"\x80\2N.N."), "2 bytes follow the pickle"),
    "an unknown opcode": (archive(b"\x80\2\xff."), "opcode"),
    "a persistent line": (archive(b"\x80\2Pabc\n."), "opcode 'P'"),
    "an instance": (archive(b"(ios\nsystem\n."), "opcode 'i'"),
    "an extension": (archive(b"\x80\2\x82\1."), "opcode"),
    "a mark alone": (archive(b"\x80\2(."), "uses a mark|damaged"),
    "a mark that was not set": (archive(b"\x80\2Nt."), "mark that it has not set"),
    "an empty stack": (archive(b"\x80\2a."), "damaged"),
    "an unknown memo": (archive(b"\x80\2h\5."), "damaged"),
    "text that is announced": (archive(b"\x80\2X\xff\xff\xff\x7f" + b"a" * 9), "2147483647 bytes are announced"),
    "text that overflows": (archive(b"\x80\4\x8d" + b"\xff" * 8), "bytes are announced"),
    "text that is none": (archive(b"\x80\2X\1\0\0\0\xff."), "damaged"),
    "a number that is announced": (archive(b"\x80\2\x8b\xff\xff\xff\x7f1"), "bytes are announced"),
    "a huge bytearray": (archive(b"\x80\2c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R."), "bytes are made of"),
    "a list as key": (archive(b"\x80\2}]Ns."), "a list is a key"),
    "a deep key": (archive(b"\x80\2})" + b"\x85" * 20_000 + b"Ns."), "is a key"),
    "a wide key": (archive(b"\x80\2}q\0)" + b"2\x86" * 40 + b"Ns."), "is a key"),
    "items of a tuple": (archive(b"\x80\2)Na."), "adds items to a tuple"),
    "a key without value": (archive(b"\x80\2}(Nu."), "damaged"),
    "a state for a list": (archive(b"\x80\2]}b."), "state of a list"),
    "a state for a function": (archive(b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n}b."), "state of a function"),
    "a state that is no dict": (archive(b"\x80\2ccollections\nOrderedDict\n)RK\1b."), "damaged|something else"),
    "a call of data": (archive(b"\x80\2X\1\0\0\0a)R."), "calls str, which is not allowed"),
    "a call of a type": (archive(b"\x80\2ctorch\nFloatStorage\n)R."), "not allowed"),
    "a call with a list": (archive(b"\x80\2c__builtin__\nset\n]R."), "not allowed"),
    "pairs that are none": (archive(b"\x80\2ccollections\nOrderedDict\n](K\1K\2e\x85R."), "else than pairs"),
    "copies of copies": (
        archive(b"\x80\2](" + b"K\1" * 9000 + b"eq\0" + b"0c__builtin__\nset\nq\1" + b"h\1h\0\x85R0" * 300 + b"N."),
        "again and again|ends with",
    ),
    "a device that is none": (archive(b"\x80\2ctorch.nn.parameter\nParameter\nN\x85\x81."), "else than a tensor"),
    "a sparse layout": (archive(b"\x80\2ctorch.serialization\n_get_layout\nX\1\0\0\0a\x85R."), "unknown layout"),
    "a tensor rebuilt by a set": (
        archive(b"\x80\2ctorch._tensor\n_rebuild_from_type_v2\n(c__builtin__\nset\nctorch\nTensor\n)NtR."),
        "what does not rebuild tensors",
    ),
    # arrays of NumPy
    "elements that are objects": (archive(ARRAY.replace(b"f8", b"O8")), "other than numbers"),
    "sizes beyond the bytes": (archive(ARRAY.replace(b"K\2\x85", b"K\3\x85")), "more or fewer bytes"),
    "negative sizes": (archive(ARRAY.replace(b"K\2\x85", b"J\xfe\xff\xff\xff\x85")), "sizes that are none"),
    "a scalar too short": (archive(SCALAR.replace(b"f8", b"f4")), "more or fewer bytes"),
    "a state that is none": (archive(b"\x80\2cnumpy._core.multiarray\n_reconstruct\n)R}b."), "unknown form"),
    # others
    "a tar archive": (b"x" * 257 + b"ustar" + bytes(99), "tar archive"),
    "a pickle of text": (pickle.dumps("text", 2), "none of torch.save"),
    "a stream of storages that it has not": (stream(tensor(storage=storage(count=2**31 - 1))), "persistent|outside"),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def load_what_is_imported_late(tmp_path_factory: Any) -> None:
    """Read a hostile file in each way, so that no memory of a test is that of a first import."""
    path = tmp_path_factory.mktemp("first") / "evil.pt"
    for data, _ in (HOSTILE["items of a tuple"], HOSTILE["a scalar too short"]):
        path.write_bytes(data)
        for mapped in (False, True):
            with pytest.raises(FileError):
                load(path, mmap=mapped)


@pytest.mark.sweep(3)  # each file in one of the ways
@pytest.mark.parametrize("way", ["file", "path", "mapped"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_a_clear_error(name: str, way: str, tmp_path: Any) -> None:
    data, message = HOSTILE[name]
    path = tmp_path / "evil.pt"
    path.write_bytes(data)
    ad.sparse_coo_tensor([[0]], [1.0], (1,))  # whose modules are loaded when they are needed, which takes memory
    for _ in range(2):  # the first error's note may read this file's source, which takes more memory than the load
        with memory_peak() as peak, pytest.raises(FileError, match=message) as caught:
            load(io.BytesIO(data)) if way == "file" else load(path, mmap=way == "mapped")
    assert ("<file object>: " if way == "file" else f"{path}: ") in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert peak[0] < 2_000_000 + 3 * len(data)


def test_a_tensor_is_a_key_by_where_it_lies() -> None:
    (key,) = load(io.BytesIO(archive(b"\x80\2}" + tensor()[2:-1] + b"Ns.")))
    assert isinstance(key, ad.Tensor)


def test_deep_values_do_no_harm() -> None:
    value = load(io.BytesIO(archive(DEEP + b".")))
    depth = 0
    while value:
        (value,) = value
        depth += 1
    assert depth == 100_000
    itself = load(io.BytesIO(archive(b"\x80\2]q\0h\0a.")))
    assert itself[0] is itself


def test_streams_that_announce_too_much() -> None:
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save([torch.ones(3), torch.zeros(5)], file, _use_new_zipfile_serialization=False)
    data = file.getvalue()
    assert load(io.BytesIO(data))[0].tolist() == [1, 1, 1]
    for cut in range(0, len(data), 7):
        with pytest.raises((FileError, SafetensorsError)):
            load(io.BytesIO(data[:cut]))
    swollen = data.replace(b"K\x03Ntq", b"M\xff\xffNtq").replace(b"K\x03", b"M\xff\xff")
    with pytest.raises(FileError, match=r"announced|elements"):
        load(io.BytesIO(swollen))


def mutations(data: bytes, count: int, seed: int) -> Any:
    """Files a little unlike `data`: bytes changed, cut out, doubled, put elsewhere, and the end cut off."""
    draw = random.Random(seed)
    for _ in range(count):
        found = bytearray(data)
        for _ in range(draw.choice([1, 1, 1, 2, 5])):
            at, length = draw.randrange(len(found) or 1), draw.choice([1, 2, 4, 8, 60])
            kind = draw.randrange(6)
            if not found:
                break
            if kind == 0:
                found[at] ^= 1 << draw.randrange(8)
            elif kind == 1:
                found[at : at + length] = draw.randbytes(length)
            elif kind == 2:
                del found[at : at + length]
            elif kind == 3:
                found[at:at] = found[at : at + length]
            elif kind == 4:
                found[at : at + length] = draw.choice([b"\xff", b"\0"]) * length
            else:
                del found[draw.randrange(len(found)) :]
        yield bytes(found)


def test_no_altered_value_is_accepted() -> None:
    data = simple()
    value = load(io.BytesIO(data))
    refused = 0
    for mutated in mutations(data, 1500, seed=1):
        try:
            found = load(io.BytesIO(mutated))
        except (FileError, SafetensorsError) as error:
            refused += len(str(error)) < 1000
            continue
        assert found["a"].tolist() == value["a"].tolist()
        assert [*found["b"][0].tolist(), found["b"][1]] == [*value["b"][0].tolist(), value["b"][1]]
    assert refused > 700


@pytest.mark.parametrize("seed", [2, 3])
def test_mutated_pickles_are_errors_or_values(seed: int) -> None:
    """With checksums made anew, so that the pickle itself is what is read."""
    original = Archive(io.BytesIO(simple()))
    records = {name: original.read(name) for name in original.records}
    pickled = records["archive/data.pkl"]
    errors = []
    for mutated in mutations(pickled, 700, seed):
        data = joined(write_archive([*(records | {"archive/data.pkl": mutated}).items()]))
        try:
            load(io.BytesIO(data), weights_only=seed == 3)
        except FileError as error:
            errors.append(str(error))
    assert 350 < len(errors) < 700
    assert max(map(len, errors)) < 1000


SCRIPT = """
import io, resource, sys
import adjoint as ad
from adjoint.serialization import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load(sys.argv[1], mmap=len(sys.argv) > 2)
except ValueError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_damaged_large_file_takes_no_more_memory_than_itself(tmp_path: Any) -> None:
    path = tmp_path / "large.pt"
    save({"x": ad.zeros(10_000_000), "y": ad.zeros(2_000_000)}, path)
    data = bytearray(path.read_bytes())
    data[-2_000_000] ^= 1
    path.write_bytes(data)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, path], env=environment, capture_output=True, text=True, check=True
    )
    unit = 1024 if sys.platform != "darwin" else 1
    assert int(done.stdout) * unit < 1.5 * len(data) + 20_000_000


def test_the_pickles_are_what_they_should_be() -> None:
    assert "BINPERSID" in [op.name for op, _, _ in pickletools.genops(tensor())]
    assert load(io.BytesIO(archive(tensor()))).tolist() == [0, 0]
