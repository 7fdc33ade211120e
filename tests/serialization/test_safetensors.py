"""The safetensors format: round trips, exchange with the safetensors package, layout, checksums."""

import io
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.errors import assert_raises
from tests.support.files.streams import joined

from adjoint.serialization.safetensors import DTYPES, ChecksumError, SafetensorsError, read, write

ARRAYS = hnp.arrays(
    dtype=st.sampled_from([*DTYPES.values(), ">f4", ">i8"]),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda name: name != "__metadata__")


def content(tensors, metadata=None):
    return joined(write(tensors, metadata))


def header_of(data):
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def assert_same(a, b):
    assert list(a) == list(b)
    for name in a:
        assert (a[name].shape, a[name].dtype) == (b[name].shape, b[name].dtype.newbyteorder("="))
        assert a[name].tobytes() == b[name].astype(a[name].dtype).tobytes()


@given(st.dictionaries(NAMES, ARRAYS, max_size=5), st.dictionaries(st.text(st.characters(codec="utf-8")), NAMES))
def test_what_is_written_is_read(tensors, metadata):
    arrays, notes = read(content(tensors, metadata))
    assert_same(arrays, tensors)
    assert notes == metadata
    assert all(array.flags.writeable and array.flags.aligned for array in arrays.values())


@pytest.mark.parametrize("code", DTYPES.values())
def test_files_go_to_and_from_the_safetensors_package(code, tmp_path):
    other = pytest.importorskip("safetensors.numpy")
    values = np.arange(24).reshape(2, 3, 4) % 2 if code == "b1" else np.arange(24).reshape(2, 3, 4)
    tensors = {"weight": values.astype(code), "": np.zeros((0, 3), code), "größe.0": np.ones((), code)}

    (tmp_path / "ours").write_bytes(content(tensors, {"format": "pt"}))
    theirs = other.load_file(tmp_path / "ours")
    assert_same({name: theirs[name] for name in tensors}, tensors)

    other.save_file(tensors, tmp_path / "theirs", metadata={"a": "b"})
    ours, metadata = read(tmp_path / "theirs")
    assert_same({name: ours[name] for name in tensors}, tensors)
    assert metadata == {"a": "b"}


def test_state_dicts_go_to_and_from_torch(tmp_path):
    torch = pytest.importorskip("torch")
    other = pytest.importorskip("safetensors.torch")
    state = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()
    other.save_file(state, tmp_path / "theirs")
    arrays, _ = read(tmp_path / "theirs")
    assert_same({name: arrays[name] for name in state}, {name: value.numpy() for name, value in state.items()})
    (tmp_path / "ours").write_bytes(content(arrays))
    back = other.load_file(tmp_path / "ours")
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_bfloat16_is_read_and_written_where_its_package_is_installed():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensors = {"x": np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)}
    data = content(tensors)
    assert header_of(data)["x"]["dtype"] == "BF16"
    assert_same(read(data)[0], tensors)


def test_bfloat16_without_its_package_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    header = b'{"x":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    with pytest.raises(SafetensorsError, match=r"'x'.*BF16.*convert the file to F32"):
        read(len(header).to_bytes(8, "little") + header + b"\0\0")


def test_layout_is_aligned_whatever_the_order_of_the_tensors():
    data = content({"a": np.ones(3, "u1"), "b": np.ones(1, "f8"), "c": np.ones(3, "f2"), "d": np.ones(1, "f4")})
    header = header_of(data)
    assert int.from_bytes(data[:8], "little") % 8 == 0
    for name, itemsize in (("a", 1), ("b", 8), ("c", 2), ("d", 4)):
        assert header[name]["data_offsets"][0] % itemsize == 0
    assert [name for name in header if name != "__metadata__"] == ["a", "b", "c", "d"]


def test_views_of_one_array_are_stored_whole_and_read_apart():
    base = np.arange(12.0).reshape(3, 4)
    broad = np.broadcast_to(1.0, (2, 2))
    tensors = {"base": base, "turned": base.T, "tied": base, "steps": base[::-1, ::2], "broad": broad}
    arrays, _ = read(content(tensors))
    assert_same(arrays, tensors)
    arrays["base"][:] = 0
    assert arrays["tied"][1, 1] == 5
    assert arrays["turned"].flags.c_contiguous


@pytest.mark.parametrize("dtype", ["c16", "O", "S3", "U3", "M8[s]", "V4", [("a", "f4")]])
def test_dtypes_the_format_lacks_are_refused_by_name(dtype):
    assert_raises(TypeError, r"'layer\.x'.*cannot hold dtype", lambda: write({"layer.x": np.zeros(2, dtype)}))


@pytest.mark.parametrize("name", ["__metadata__", "half \ud800 pair"])
def test_names_the_format_lacks_are_refused(name):
    assert_raises(ValueError, "cannot have the name", lambda: write({name: np.zeros(1)}))


@pytest.mark.parametrize("key", ["adjoint.crc32", "adjoint.crc32:x", "\udfff"])
def test_metadata_the_format_lacks_is_refused(key):
    assert_raises(ValueError, "metadata cannot have the key", write, {}, {key: ""})


def test_metadata_and_names_must_be_strings():
    assert_raises(TypeError, "metadata must map strings to strings, not 'a' to a int", write, {}, {"a": 1})
    assert_raises(TypeError, "a tensor's name must be a string, not 3", lambda: write({3: np.zeros(1)}))


def test_a_header_over_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr("adjoint.serialization.safetensors.HEADER_LIMIT", 1000)
    assert_raises(ValueError, "more than the 1000", lambda: write({"x" * 1000: np.zeros(1)}))


class Trickle(io.BytesIO):
    """A file that hands out a few bytes at a time."""

    def readinto(self, buffer):
        return super().readinto(memoryview(buffer)[:5])


class Pipe(io.RawIOBase):
    """A stream that cannot go back."""

    def __init__(self, data):
        self.rest = data

    def readable(self):
        return True

    def readinto(self, buffer):
        taken, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO, Trickle, Pipe])
def test_sources_of_every_kind(kind):
    tensors = {"x": np.arange(7.0), "y": np.ones((2, 2), "i2")}
    assert_same(read(kind(content(tensors)))[0], tensors)


def test_reading_starts_where_an_open_file_stands():
    file = io.BytesIO(b"before" + content({"x": np.arange(3)}))
    file.seek(6)
    assert_same(read(file)[0], {"x": np.arange(3)})


def test_mapped_arrays_are_private(tmp_path):
    tensors = {"x": np.arange(1000.0), "empty": np.zeros((0, 2)), "mask": np.ones(3, bool)}
    path = tmp_path / "x.safetensors"
    path.write_bytes(content(tensors))
    arrays, _ = read(path, mapped=True)
    assert_same(arrays, tensors)
    assert not arrays["x"].flags.owndata
    arrays["x"][:] = 0
    assert_same(read(path)[0], tensors)
    assert_raises(ValueError, "only a file given by its path", lambda: read(path.read_bytes(), mapped=True))


def test_mapped_tensors_off_their_alignment_are_copied(tmp_path):
    header = (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}'
    )
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\x07" + np.float32(2.5).tobytes())
    arrays, _ = read(path, mapped=True)
    assert arrays["b"].flags.aligned
    assert (arrays["a"].item(), arrays["b"].item()) == (7, 2.5)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("bit", range(0, 8 * 12, 5))
def test_a_flipped_bit_is_reported_with_the_name_of_its_tensor(bit, mapped, tmp_path):
    data = bytearray(content({"first": np.arange(2, dtype="f4"), "second": np.ones(4, "u1")}))
    data[bit // 8 - 12] ^= 1 << bit % 8
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    name = "first" if bit < 64 else "second"
    with pytest.raises(ChecksumError, match=f"model.safetensors: tensor '{name}': its bytes do not have the checksum"):
        read(path, mapped=mapped)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"F32"', b'"I32"', "the names, shapes, dtypes and metadata do not have the checksum"),
        (b"[2,3]", b"[3,2]", "the names, shapes, dtypes and metadata do not have the checksum"),
        (b'"epoch 3"', b'"epoch 4"', "the names, shapes, dtypes and metadata do not have the checksum"),
        (b',"weight"', b',"weighs"', "tensor 'weight': its checksum is in the file, the tensor is not"),
        (b"crc32:weight", b"crc32:weighs", "tensor 'weighs': its checksum is in the file, the tensor is not"),
        (b'"adjoint.crc32":', b'"adjoint.crc33":', "the checksum of the header is missing"),
        (b"crc32:weight", b"crc99:weight", "tensor 'weight': it has no checksum"),
    ],
)
def test_a_changed_header_is_reported(old, new, message):
    data = content({"weight": np.ones((2, 3), "f4")}, {"note": "epoch 3"})
    assert data.count(old) == 1
    assert_raises(ChecksumError, message, lambda: read(data.replace(old, new)))


def test_equal_tensors_laid_out_anew_keep_their_checksums():
    data = content({"a": np.zeros(2, "f4"), "b": np.ones(2, "f4")})
    swapped = data.replace(b"[0,8]", b"[?]").replace(b"[8,16]", b"[0,8]").replace(b"[?]", b"[8,16]")
    swapped = swapped[:-16] + swapped[-8:] + swapped[-16:-8]
    assert swapped != data
    assert_same(read(swapped)[0], {"a": np.zeros(2, "f4"), "b": np.ones(2, "f4")})
