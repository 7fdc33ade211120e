"""`save_safetensors` and `load_safetensors`: nested values and tensors, what they refuse, and what other tools see."""

import io
import math
from collections import OrderedDict, defaultdict, namedtuple
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.errors import assert_raises

from adjoint import as_tensor
from adjoint.core.dtype.dtype import DTYPES, bfloat16
from adjoint.core.tensor.tensor import Tensor
from adjoint.serialization import safetensors
from adjoint.serialization.safetensors import SafetensorsError
from adjoint.serialization.safetensors_tree import load_safetensors as load
from adjoint.serialization.safetensors_tree import save_safetensors as save


def passed(value):
    """`value` saved and loaded."""
    file = io.BytesIO()
    save(value, file)
    file.seek(0)
    return load(file)


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, Tensor):
        assert a.array is not b.array
        assert (a.array.dtype, a.array.shape) == (b.array.dtype, b.array.shape)
        assert a.array.tobytes() == b.array.tobytes()
        assert not b.requires_grad
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, dict):
        assert_same(list(a), list(b))
        assert_same(list(a.values()), list(b.values()))
    elif isinstance(a, float):
        assert (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    else:
        assert a == b


NUMPYS = [kind for kind in DTYPES if kind.isbuiltin == 1 and kind != np.complex128]  # bfloat16 may be there already
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
BFLOAT16 = hnp.arrays(np.uint16, SHAPES).map(lambda bits: as_tensor(bits.view(bfloat16.numpy)))
TENSORS = hnp.arrays(st.sampled_from(NUMPYS), SHAPES).map(as_tensor) | BFLOAT16
TEXT = st.text(st.characters(), max_size=6)
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT)
KEYS = st.one_of(TEXT, st.integers(), st.none(), st.floats(allow_nan=False))
VALUES = st.recursive(
    PLAIN | TENSORS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_saved_is_loaded(value):
    assert_same(value, passed(value))


EXACT = [10**5000, -(2**64), 2**53 + 1, -0.0, 5e-324, math.nan, -math.inf, "\ud800\0", "é🙂"]


@pytest.mark.parametrize("value", EXACT, ids=range(len(EXACT)))
def test_plain_values_are_exact(value):
    assert_same({"value": [value]}, passed({"value": [value]}))


def test_a_training_checkpoint(tmp_path):
    checkpoint = {
        "model": OrderedDict(
            [("0.weight", as_tensor(np.ones((2, 3), "f4"))), ("0.bias", as_tensor(np.zeros(2, "f4")))]
        ),
        "optimizer": {
            "state": {
                0: {"step": as_tensor(np.array(5.0, "f4")), "exp_avg": as_tensor(np.ones((2, 3), "f4"))},
                1: {"step": as_tensor(np.array(5.0, "f4")), "exp_avg": as_tensor(np.ones(2, "f4"))},
            },
            "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "amsgrad": False, "foreach": None, "params": [0, 1]}],
        },
        "epoch": 3,
    }
    save(checkpoint, tmp_path / "last.ckpt")
    assert_same(checkpoint, load(tmp_path / "last.ckpt"))
    assert_same(checkpoint, load(str(tmp_path / "last.ckpt"), mmap=True))
    arrays, _ = safetensors.read(tmp_path / "last.ckpt")
    assert list(arrays) == [
        "model.0.weight", "model.0.bias", "optimizer.state.0.step", "optimizer.state.0.exp_avg",
        "optimizer.state.1.step", "optimizer.state.1.exp_avg",
    ]  # fmt: skip


def test_a_state_dict_is_read_by_other_tools_under_its_own_keys(tmp_path):
    other = pytest.importorskip("safetensors")
    state = {"0.weight": as_tensor(np.arange(6.0).reshape(2, 3)), "0.bias": as_tensor(np.ones(2, "f4"))}
    save(state, tmp_path / "model.safetensors")
    with other.safe_open(tmp_path / "model.safetensors", framework="np") as file:
        assert (sorted(file.keys()), file.metadata()["format"]) == (sorted(state), "pt")
        for name, tensor in state.items():
            assert file.get_tensor(name).tobytes() == tensor.array.tobytes()


def test_a_file_of_another_tool_is_a_dict_of_its_tensors(tmp_path):
    other = pytest.importorskip("safetensors.numpy")
    other.save_file({"b": np.ones(2, "f4"), "a": np.zeros((1, 2), "i8")}, tmp_path / "x", metadata={"format": "np"})
    loaded = load(tmp_path / "x")
    expected = {"a": as_tensor(np.zeros((1, 2), "i8")), "b": as_tensor(np.ones(2, "f4"))}
    assert_same({name: loaded[name] for name in expected}, expected)


def test_names_that_would_meet_are_kept_apart():
    one, two, three = (as_tensor(np.array(i)) for i in (1, 2, 3))
    value = {"a": {"b": one}, "a.b": two, "a.b#2": three, 1: one, "1": two, "__metadata__": three, "\udfff": one}
    assert_same(value, passed(value))


def test_tied_tensors_are_loaded_apart():
    tensor = as_tensor(np.arange(3.0))
    loaded = passed({"a": tensor, "b": tensor})
    loaded["a"].array[:] = 0
    assert loaded["b"].array.tolist() == [0, 1, 2]


def test_values_are_saved_without_their_history():
    tensor = as_tensor(np.arange(3.0)).requires_grad_()
    assert_same(tensor, passed(tensor))


def test_nesting_up_to_the_limit_and_beyond():
    value = []
    for _ in range(99):
        value = [value]
    assert_same(value, passed(value))
    assert_raises(TypeError, "nested more than 100 deep", passed, [value])


class Choice(IntEnum):
    ONE = 1


Point = namedtuple("Point", "x y")
ITSELF: list = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"model": {"f": print}}, r"obj\['model'\]\['f'\] is a builtins.builtin_function_or_method;"),
        ([1, {2: {3}}], r"obj\[1\]\[2\] is a builtins.set;"),
        (b"x", "obj is a builtins.bytes;"),
        ([1j], r"obj\[0\] is a builtins.complex;"),
        (np.float64(1), r"numpy.float64 \(value.item\(\) is the Python number\)"),
        ({"x": np.zeros(3)}, r"obj\['x'\] is a numpy.ndarray \(adjoint.from_numpy makes it a tensor\)"),
        (Choice.ONE, r"Choice \(int\(value\) is a plain one\)"),
        (Point(1, 2), r"Point \(tuple\(value\) is a plain one\)"),
        (defaultdict(int), r"defaultdict \(dict\(value\) is a plain one\)"),
        ({(1, 2): 3}, r"obj is a dict with the key \(1, 2\), a tuple"),
        ([ITSELF], r"obj\[0\]\[0\] is a list that contains itself"),
        ({"z": as_tensor(np.zeros(2, "c16"))}, "tensor 'z'.*cannot hold dtype complex128"),
    ],
)
def test_what_cannot_be_saved_is_named_before_anything_is_written(value, message, tmp_path):
    path = tmp_path / "x"
    save(1, path)
    before = path.read_bytes()
    assert_raises(TypeError, message, save, value, path)
    assert path.read_bytes() == before
    file = io.BytesIO()
    assert_raises(TypeError, message, save, value, file)
    assert file.getvalue() == b""
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_list_held_twice_is_no_cycle():
    part = [1]
    assert passed([part, part]) == [[1], [1]]


def test_files_must_be_binary_paths_or_files(tmp_path):
    save(1, tmp_path / "x")
    with open(tmp_path / "x", encoding="latin1") as file, pytest.raises(TypeError, match="text mode"):
        load(file)
    with open(tmp_path / "y", "w", encoding="latin1") as file, pytest.raises(TypeError, match="text mode"):
        save(1, file)
    assert_raises(AttributeError, "load_safetensors: f must be a path or an open binary file", load, 3)
    assert_raises(AttributeError, "save_safetensors: f must be a path or an open binary file", save, 1, None)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")
    assert_raises(ValueError, "only a file given by its path can be mapped", lambda: load(io.BytesIO(), mmap=True))


class Slow(io.RawIOBase):
    """A raw file that takes a few bytes at a time."""

    def __init__(self):
        self.taken = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.taken += bytes(data[:7])
        return min(len(data), 7)


def test_a_file_that_takes_bytes_slowly_gets_them_all():
    file = Slow()
    save({"x": as_tensor(np.arange(9.0))}, file)
    assert load(io.BytesIO(file.taken))["x"].array.tolist() == list(range(9))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_torch_save_is_named_with_the_function_that_reads_it(zipped, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.pt"
    torch.save({"weight": torch.zeros(3)}, path, _use_new_zipfile_serialization=zipped)
    kind = "a ZIP archive of torch.save" if zipped else "a Python pickle, perhaps of torch.save"
    assert_raises(SafetensorsError, rf"model\.pt: this is {kind}.*adjoint\.load reads files of torch", load, path)


@pytest.mark.parametrize("dtype", ["u2", "u4", "u8"])
def test_wide_unsigned_integers_are_loaded(dtype, tmp_path):
    path = tmp_path / "x.safetensors"
    greatest = np.array([0, np.iinfo(dtype).max], dtype)
    path.write_bytes(b"".join(bytes(chunk) for chunk in safetensors.write({"ids": greatest})))
    loaded = load(path)["ids"]
    assert (loaded.dtype, loaded.tolist()) == (greatest.dtype, greatest.tolist())
    save({"ids": loaded}, tmp_path / "y.safetensors")
    assert load(tmp_path / "y.safetensors")["ids"].tolist() == greatest.tolist()
