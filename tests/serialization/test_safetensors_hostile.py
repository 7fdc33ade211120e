"""Files made to mislead a reader: each gives a clear error, or the data it truly holds, and takes little memory."""

import io
import json
import pickle
import random
import zipfile

import numpy as np
import pytest
from tests.support.files.streams import joined, memory_peak

from adjoint import as_tensor
from adjoint.serialization.safetensors import SafetensorsError, read, write
from adjoint.serialization.safetensors_tree import load_safetensors as load
from adjoint.serialization.safetensors_tree import save_safetensors as save


def framed(header, data=b""):
    """A file with this header, given as bytes, text or JSON value."""
    if not isinstance(header, (str, bytes)):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    return len(header).to_bytes(8, "little") + header + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def one(*args, data=bytes(8), **more):
    return framed({"x": entry(*args, **more)}, data)


def two(a, b, data):
    return framed({"a": entry("U8", [a[1] - a[0]], a), "b": entry("U8", [b[1] - b[0]], b)}, data)


def without(key):
    return framed({"x": {k: v for k, v in entry().items() if k != key}}, bytes(8))


def length(n, rest=b"{}"):
    return n.to_bytes(8, "little") + rest


def archive(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr(name, b"data")
    return file.getvalue()


def npy():
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


JSON = "the header is not valid JSON"
SHAPE = "tensor 'x': its shape must be a list of integers from 0"
OFFSETS = "tensor 'x': its data_offsets must be two integers from 0"
RANGE = "do not lie in order within the 8 data bytes"
STRINGS = "__metadata__ must map strings to strings"
FIELDS = "tensor 'x': its entry must have exactly dtype, shape and data_offsets"

HOSTILE = {
    # the length
    "nothing": (b"", "0 bytes are too few"),
    "seven bytes": (b"1234567", "7 bytes are too few"),
    "no header": (length(0, b""), "does not start with '{'"),
    "zero length": (length(0), "does not start with '{'"),
    "length one": (length(1, b"{"), JSON),
    "length past the end": (length(3), "a header of 3 bytes is announced, but only 2 bytes follow"),
    "length far past the end": (length(90_000_000), "the file is cut short"),
    "length over the limit": (length(100_000_001), "at most 100000000 are allowed"),
    "length of the signed limit": (length(2**63 - 1), "at most 100000000 are allowed"),
    "length of the unsigned limit": (length(2**64 - 1), "at most 100000000 are allowed"),
    "length that wraps around": (length(2**64 - 8), "at most 100000000 are allowed"),
    "big-endian length": (b"\0\0\0\0\0\0\0\x02{}", "at most 100000000 are allowed"),
    # the header as text
    "leading space": (framed(" {}"), "does not start with '{'"),
    "leading mark": (framed("\ufeff{}"), "does not start with '{'"),
    "a list": (framed("[]"), "does not start with '{'"),
    "cut JSON": (framed('{"x":'), JSON),
    "two values": (framed("{}{}"), JSON),
    "zero byte behind": (framed("{}\0"), JSON),
    "trailing comma": (framed('{"__metadata__":{},}'), JSON),
    "a comment": (framed("{}//"), JSON),
    "not UTF-8": (framed(b'{"\xff":1}'), JSON),
    "UTF-16": (framed('{"x":1}'.encode("utf-16-le")), JSON),
    "control character": (framed('{"a\nb":1}'), JSON),
    "half a surrogate pair": (framed('{"\\ud800":{}}'), "not valid Unicode"),
    "deep lists": (framed('{"x":' + "[" * 100_000), JSON),
    "deep objects": (framed('{"x":' * 100_000), JSON),
    "endless number": (framed('{"x":' + "9" * 100_000 + "}"), JSON),
    "NaN": (framed('{"x":NaN}'), "it has the number NaN"),
    "infinity": (framed('{"x":-Infinity}'), "it has the number -Infinity"),
    # names
    "a tensor twice": (
        framed(f'{{"x":{json.dumps(entry())},"x":{json.dumps(entry())}}}', bytes(8)),
        "the header has the key 'x' twice",
    ),
    "a tensor twice, once escaped": (
        framed(f'{{"x":{json.dumps(entry())},"\\u0078":{json.dumps(entry())}}}', bytes(8)),
        "the header has the key 'x' twice",
    ),
    "metadata twice": (framed('{"__metadata__":{},"__metadata__":{}}'), "the key '__metadata__' twice"),
    "a metadata key twice": (framed('{"__metadata__":{"a":"b","a":"c"}}'), "the key 'a' twice"),
    "a field twice": (
        framed('{"x":{"dtype":"U8","shape":[8],"shape":[8],"data_offsets":[0,8]}}', bytes(8)),
        "the key 'shape' twice",
    ),
    # metadata
    "metadata list": (framed({"__metadata__": []}), STRINGS),
    "metadata null": (framed({"__metadata__": None}), STRINGS),
    "metadata number": (framed({"__metadata__": {"a": 1}}), "'a' is a int"),
    "metadata nested": (framed({"__metadata__": {"a": {"b": "c"}}}), "'a' is a dict"),
    "metadata half pair": (framed('{"__metadata__":{"a":"\\udc00"}}'), "'a' is not valid Unicode"),
    "metadata as tensor": (framed({"__metadata__": entry()}, bytes(8)), "'shape' is a list"),
    # entries
    "entry null": (framed({"x": None}), FIELDS),
    "entry list": (framed({"x": ["F32", [2], [0, 8]]}, bytes(8)), FIELDS),
    "entry without dtype": (without("dtype"), FIELDS),
    "entry without shape": (without("shape"), FIELDS),
    "entry without offsets": (without("data_offsets"), FIELDS),
    "entry with strides": (one(strides=[1]), FIELDS),
    # dtypes
    "dtype unknown": (one("F31"), "tensor 'x': dtype 'F31' is not supported"),
    "dtype lower case": (one("f32"), "dtype 'f32' is not supported"),
    "dtype of NumPy objects": (one("O"), "dtype 'O' is not supported"),
    "dtype number": (one(32), "its dtype must be a string"),
    "dtype list": (one([["a", "<f4"]]), "its dtype must be a string"),
    "dtype of eight bits": (one("F8_E4M3", [8]), "dtype 'F8_E4M3' is not supported"),
    # shapes
    "shape number": (one(shape=2), SHAPE),
    "shape text": (one(shape="2"), SHAPE),
    "shape null": (one(shape=None), SHAPE),
    "shape negative": (one(shape=[-2]), SHAPE),
    "shape twice negative": (one(shape=[-1, -2]), SHAPE),
    "shape float": (one(shape=[2.0]), SHAPE),
    "shape true": (one(shape=[True, 2]), SHAPE),
    "shape nested": (one(shape=[[2]]), SHAPE),
    "shape over 63 bits": (one(shape=[2**63]), SHAPE),
    "shape over 64 bits": (one(shape=[2**64 + 2]), SHAPE),
    "shape of endless digits": (one(shape=[10**4000]), SHAPE),
    "shape product wraps to 2": (one(shape=[2**62 + 1, 4, 2**61]), "overflows 64 bits"),
    "shape product wraps to 0": (one(shape=[2**32, 2**32], offsets=[0, 0], data=b""), "overflows 64 bits"),
    "shape bytes wrap to 8": (one(shape=[2**62 + 2]), "overflows 64 bits"),
    "shape with 0 overflows": (one(shape=[0, 2**62, 2**62], offsets=[0, 0], data=b""), "overflows 64 bits"),
    "shape of 65 dimensions": (one(shape=[1] * 64 + [2]), "it has 65 dimensions"),
    "shape of many dimensions": (one(shape=[2**62] * 20_000), "it has 20000 dimensions"),
    "shape too large for its bytes": (one(shape=[3]), "F32 of shape [3] takes 12 bytes, its data_offsets"),
    "shape too small for its bytes": (one(shape=[1]), "takes 4 bytes, its data_offsets [0, 8] span 8"),
    "shape of terabytes": (one(shape=[2**40]), "takes 4398046511104 bytes"),
    "shape empty, bytes there": (one(shape=[0]), "takes 0 bytes"),
    "shape of a number, bytes of two": (one(shape=[]), "takes 4 bytes"),
    # offsets
    "offsets number": (one(offsets=8), OFFSETS),
    "offsets one": (one(offsets=[8]), OFFSETS),
    "offsets three": (one(offsets=[0, 8, 8]), OFFSETS),
    "offsets text": (one(offsets=["0", "8"]), OFFSETS),
    "offsets negative": (one(offsets=[-8, 0]), OFFSETS),
    "offsets float": (one(offsets=[0, 8.0]), OFFSETS),
    "offsets false": (one(offsets=[False, 8]), OFFSETS),
    "offsets over 63 bits": (one(offsets=[0, 2**64 + 8]), OFFSETS),
    "offsets turned": (one(offsets=[8, 0]), RANGE),
    "offsets past the end": (one(offsets=[8, 16]), RANGE),
    "offsets end past the end": (one(shape=[4], offsets=[0, 16]), RANGE),
    "offsets at the limit": (one(offsets=[2**63 - 9, 2**63 - 1]), RANGE),
    # layout
    "bytes before": (one(offsets=[4, 12], data=bytes(12)), "tensor 'x': a hole of 4 bytes lies before it"),
    "bytes behind": (one(data=bytes(9)), "the last 1 bytes of the file belong to no tensor"),
    "bytes without tensors": (framed({}, b"x"), "the last 1 bytes of the file belong to no tensor"),
    "data cut short": (one(data=bytes(7)), "do not lie in order within the 7 data bytes"),
    "a hole": (two((0, 3), (4, 8), bytes(8)), "tensor 'b': a hole of 1 bytes lies before it"),
    "an overlap": (two((0, 5), (4, 8), bytes(8)), "tensors 'a' and 'b' overlap at data byte 4"),
    "one within another": (two((0, 8), (2, 4), bytes(8)), "tensors 'a' and 'b' overlap at data byte 2"),
    "the same bytes twice": (two((0, 8), (0, 8), bytes(8)), "tensors 'a' and 'b' overlap at data byte 0"),
    "an empty tensor within another": (two((0, 8), (4, 4), bytes(8)), "tensors 'a' and 'b' overlap at data byte 4"),
    # bytes
    "a BOOL of 2": (one("BOOL", [8], data=b"\0\1\0\1\0\1\0\2"), "tensor 'x': a BOOL byte is neither 0 nor 1"),
    # other files
    "a pickle": (pickle.dumps({"x": [1.0] * 100}), "Python pickle.*runs code.*adjoint.load reads"),
    "a ZIP archive": (archive("other/file"), "ZIP archive, perhaps of torch.save.*adjoint.load reads"),
    "a ZIP archive of torch.save": (archive("model/data.pkl"), "a ZIP archive of torch.save.*adjoint.load reads"),
    "an npz archive": (archive("x.npy"), r"NumPy \.npz archive.*allow_pickle=False"),
    "an npy file": (npy(), r"NumPy \.npy file.*allow_pickle=False"),
    "an HDF5 file": (b"\x89HDF\r\n\x1a\n" + bytes(100), "an HDF5 file"),
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
}


def escaped(message):
    return message if ".*" in message else "".join("\\" + c if c in "[]().*" else c for c in message)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_a_clear_error_and_takes_no_memory(case, mapped, tmp_path):
    data, message = HOSTILE[case]
    path = tmp_path / "evil.safetensors"
    path.write_bytes(data)
    with memory_peak() as peak, pytest.raises(SafetensorsError, match=escaped(message)) as caught:
        load(path, mmap=mapped)
    assert str(caught.value).startswith(str(path) + ": ")
    assert len(str(caught.value)) < len(str(path)) + 500
    assert peak[0] < 3_000_000 + 20 * len(data)


ODD = {
    "spaces behind": framed("{}  "),
    "no tensors": framed({}),
    "no metadata": one(),
    "a tensor without a name": framed({"": entry()}, bytes(8)),
    "an empty tensor": one(shape=[0], offsets=[0, 0], data=b""),
    "an empty tensor of large shape": one(shape=[2**40, 0], offsets=[0, 0], data=b""),
    "empty tensors between": two((0, 4), (4, 4), bytes(4)),
    "order of the header is not that of the data": two((4, 8), (0, 4), bytes(8)),
    "64 dimensions": one(shape=[1] * 63 + [2]),
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_but_sound_file_is_read(case):
    arrays, metadata = read(ODD[case])
    assert metadata == {}
    header = int.from_bytes(ODD[case][:8], "little")
    assert sum(array.nbytes for array in arrays.values()) == len(ODD[case]) - 8 - header


def same(a, b):
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and a[name].shape == b[name].shape and a[name].tobytes() == b[name].tobytes()
        for name in a
    )


def mutate(data, chance):
    """Damage in one or two places; with more it may hit the names of all checksums and the data too."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 2)):
        if not data:
            break
        at = chance.randrange(len(data))
        match chance.randrange(6):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at] = chance.choice(b'0123456789[]{},:"\\ -\0\xff')
            case 2:
                del data[at : at + chance.randint(1, 9)]
            case 3:
                data[at:at] = data[chance.randrange(len(data)) :][: chance.randint(1, 9)]
            case 4:
                del data[max(at, 1) :]
            case 5:
                data[at : at + 8] = chance.randbytes(8)
    return bytes(data)


def attempt(reader, source):
    """What the reader returns, or None and its message."""
    try:
        return reader(source), ""
    except SafetensorsError as error:
        return None, str(error)


@pytest.mark.parametrize("seed", range(40))
def test_mutations_are_errors_or_equal_data(seed):
    chance = random.Random(seed)
    tensors = {
        "layer.weight": np.arange(12, dtype="f4").reshape(3, 4), "layer.bias": np.ones(3),
        "mask": np.array([[True, False]]), "steps": np.array(7),
    }  # fmt: skip
    data = joined(write(tensors, {"note": "x"}))
    for _ in range(25):
        changed = mutate(data, chance)
        with memory_peak() as peak:
            result, problem = attempt(read, changed)
        assert 10 < len(problem) < 1000 if result is None else same(result[0], tensors)
        assert peak[0] < 1_000_000


@pytest.mark.parametrize("seed", range(20))
def test_mutations_of_checkpoints_are_errors_or_equal_values(seed):
    chance = random.Random(1000 + seed)
    saved = {"model": {"weight": as_tensor(np.arange(6.0))}, "epochs": (1, 2, [None, "x", float("inf")]), 3: 2**70}
    file = io.BytesIO()
    save(saved, file)
    for _ in range(25):
        loaded, problem = attempt(load, io.BytesIO(mutate(file.getvalue(), chance)))
        assert len(problem) < 1000
        if not problem:
            assert loaded["model"]["weight"].array.tobytes() == saved["model"]["weight"].array.tobytes()
            assert (loaded["epochs"], loaded[3]) == (saved["epochs"], saved[3])


STRUCTURES = {
    "not JSON": "{",
    "deep": "[" * 100_000,
    "deep and closed": "[" * 102 + "]" * 102,
    "endless number": "9" * 100_000,
    "two keys": '{"int":"1","float":"1"}',
    "no key": "{}",
    "unknown kind": '{"eval":"1"}',
    "a class": '{"__reduce__":["os.system","true"]}',
    "int of another type": '{"int":5}',
    "int that is none": '{"int":"zz"}',
    "float that is none": '{"float":"x"}',
    "tensor that is missing": '{"tensor":"y"}',
    "tensor named twice": '[{"tensor":"x"},{"tensor":"x"}]',
    "tensor named nowhere": "[]",
    "tensor list": '{"tensor":["x"]}',
    "tuple of text": '{"tuple":"abc"}',
    "dict of text": '{"dict":"ab"}',
    "dict of an object": '{"dict":{"a":1}}',
    "dict of no pairs": '{"dict":[["a"]]}',
    "dict of strings for pairs": '{"dict":["ab"]}',
    "dict with a list as key": '{"dict":[[[],1]]}',
    "dict with a dict as key": '{"dict":[[{"dict":[]},1]]}',
    "dict with a tensor as key": '{"dict":[[{"tensor":"x"},1]]}',
    "dict with a key twice": '{"dict":[["a",1],["a",2]]}',
    "dict with equal keys": '{"dict":[[1,1],[true,2]]}',
    "ordered dict of text": '{"OrderedDict":"ab"}',
}


@pytest.mark.parametrize("case", STRUCTURES)
def test_a_hostile_structure_is_a_clear_error(case, tmp_path):
    path = tmp_path / "evil.safetensors"
    path.write_bytes(framed({"__metadata__": {"adjoint.structure": STRUCTURES[case]}, "x": entry()}, bytes(8)))
    with pytest.raises(SafetensorsError, match="structure in its metadata") as caught:
        load(path)
    assert len(str(caught.value)) < len(str(path)) + 300
