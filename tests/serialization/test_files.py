"""`save` and `load`: PyTorch's files in both directions, and what files may name."""

import argparse
import collections
import io
import pickle
import warnings
import zipfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.errors import assert_raises
from tests.support.files.streams import joined, saved

import adjoint as ad
from adjoint import nn, optim, serialization
from adjoint.serialization import FileError, load, save
from adjoint.serialization.zip_archive import Archive, write_archive

torch: Any = pytest.importorskip("torch")

NAMES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip


def to_torch(value: Any) -> Any:
    return torch.load(saved(value), weights_only=True)


def from_torch(value: Any, **options: Any) -> Any:
    return load(saved(value, torch, **options))


def plain(value: Any) -> Any:
    """Tensors of either library as their parts, within the structure they stand in."""
    if isinstance(value, (ad.Tensor, torch.Tensor)):
        parts = value.tolist(), tuple(value.shape), tuple(value.stride()), str(value.dtype).split(".")[1]
        return (type(value).__name__, *parts, value.requires_grad, value.storage_offset())
    if isinstance(value, (ad.dtype, torch.dtype, ad.device, torch.device)):
        return str(value).split(".")[-1]
    if isinstance(value, (list, tuple, torch.Size)):
        return (type(value).__name__, [plain(item) for item in value])
    if isinstance(value, dict):
        return (type(value).__name__, [(key, plain(item)) for key, item in value.items()])
    return (type(value).__name__, value)


def examples(lib: Any) -> dict[Any, Any]:
    """The same value with the tensors of either library."""
    whole = lib.arange(12.0).reshape(3, 4)
    parameter = lib.nn.Parameter(lib.ones(2))
    noted = lib.zeros(2)
    noted.note = "a tensor's own attribute"
    return {
        "whole": whole, "transposed": whole.t(), "row": whole[1], "steps": whole[:, ::2],
        "expanded": lib.ones(1).expand(4), "scalar": lib.tensor(3), "empty": lib.zeros(0, 3),
        "leaf": lib.ones(2, requires_grad=True), "parameter": parameter, "again": parameter,
        "frozen": lib.nn.Parameter(lib.ones(1), requires_grad=False), "noted": noted,
        "types": [lib.float32, lib.bfloat16, lib.uint16, lib.device("cpu"), lib.Size([2, 3])],
        "plain": [None, True, False, 0, -1, 255, 65536, 2**31, -(2**70), 1.5, float("inf"), "é🙂", b"\0\xff"],
        "containers": ({1, "a"}, (), [], {}, bytearray(b"abc"), 1 + 2j, collections.Counter("aab")),
        "ordered": OrderedDict([("b", 1), ("a", (2,))]), 3: {None: [whole], (1, "x"): 1.0},
    }  # fmt: skip


def test_torch_reads_what_we_write() -> None:
    found, expected = to_torch(examples(ad)), examples(torch)
    assert list(found) == list(expected)
    for name in expected:
        assert plain(found[name]) == plain(expected[name])


@pytest.mark.parametrize("options", [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}])
def test_we_read_what_torch_writes(options: dict[str, Any]) -> None:
    assert plain(from_torch(examples(torch), **options)) == plain(examples(ad))


@pytest.mark.parametrize("name", NAMES)
def test_every_type_both_ways(name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    for lib, passed in ((torch, from_torch), (ad, to_torch), (ad, lambda value: load(saved(value)))):
        kind = getattr(lib, name)
        values = lib.tensor([[0, 1], [1, 3]]).to(kind)
        found = passed([values, values.t(), values[1:]])
        assert [t.tolist() for t in found] == [values.tolist(), values.t().tolist(), values[1:].tolist()]
        assert str(found[0].dtype).endswith(f".{name}")


def test_views_of_one_memory_stay_so() -> None:
    for found in (from_torch(examples(torch)), load(saved(examples(ad)))):
        found["row"][0] = 50.0
        assert found["transposed"][0, 1].item() == 50
        assert found[3][None][0] is found["whole"]
        assert found["parameter"] is found["again"]
        twice = (found["whole"].requires_grad_() * 2).sum()
        assert twice.item() == 2 * found["transposed"].sum().item()
        found["row"].mul_(2)  # what backward keeps is none of it
        twice.backward()
    w, v = load(saved([x := ad.ones(3, requires_grad=True), x.detach()]))
    y = (w * w).sum()
    v.mul_(2)
    assert_raises(RuntimeError, "modified", y.backward)


def test_each_memory_is_written_once() -> None:
    whole = ad.zeros(1000)
    file = saved([whole, whole[10:], whole.reshape(10, 100).t()])
    assert len(file.getvalue()) < 8000
    names = [name for name in Archive(file).records if "/data/" in name]
    assert names == ["archive/data/0"]


def test_one_memory_as_two_types_is_written_twice() -> None:
    z = ad.tensor([1 + 2j, 3 - 1j])
    for found in (to_torch([z, ad.view_as_real(z)]), load(saved([ad.view_as_real(z), z]))[::-1]):
        assert [t.tolist() for t in found] == [z.tolist(), [[1, 2], [3, -1]]]


def test_memory_of_others_is_written_too() -> None:
    array = np.arange(12.0).reshape(3, 4)
    shared = torch.arange(12.0).reshape(3, 4).t()
    given = [ad.from_numpy(array[1:, ::2]), ad.from_numpy(array.T), ad.from_numpy(shared.numpy())]
    broad = ad.from_numpy(np.broadcast_to(np.float32(2), (3,)))
    found = to_torch([*given, broad])
    assert [t.tolist() for t in found] == [t.tolist() for t in [*given, broad]]


def test_conjugated_and_negated_views_of_torch() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    found = from_torch([z, z.conj()])
    assert [t.tolist() for t in found] == [z.tolist(), z.conj().tolist()]
    assert from_torch(z.conj().imag).tolist() == [-2, 1]


def trained(lib: Any, functions: Any) -> Any:
    lib.manual_seed(0)
    model = functions.Sequential(
        functions.Linear(3, 4), functions.ReLU(), functions.BatchNorm1d(4), functions.Linear(4, 2)
    )
    optimizer = (optim if lib is ad else torch.optim).AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(lib.rand(5, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("to_us", [False, True])
def test_training_goes_on_in_the_other_library(to_us: bool) -> None:
    sides: list[Any] = [(ad, nn), (torch, torch.nn)]
    (lib, functions), (other, others) = sides[::-1] if to_us else sides
    model, optimizer = trained(lib, functions)
    path = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "rng": lib.get_rng_state()}
    found = other.load(saved(path, lib), weights_only=True)
    twin, twins_optimizer = trained(other, others)
    twin.load_state_dict(found["model"])
    twins_optimizer.load_state_dict(found["optimizer"])
    other.set_rng_state(found["rng"])
    assert found["model"]._metadata == model.state_dict()._metadata
    for _ in range(2):
        draws = lib.rand(5, 3)
        assert draws.tolist() == other.rand(5, 3).tolist()
        for net, opt, x in ((model, optimizer, draws), (twin, twins_optimizer, other.tensor(draws.tolist()))):
            opt.zero_grad()
            net(x).square().sum().backward()
            opt.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("library", [ad, torch])
def test_mapped_tensors_are_private_views_of_the_file(library: Any, tmp_path: Any) -> None:
    path = tmp_path / "model.pt"
    whole = library.arange(1000)
    library.save({"a": whole, "b": whole[5:], "e": whole[:0]}, path)
    before = path.read_bytes()
    found = load(path, mmap=True)
    assert found["b"].tolist() == list(range(5, 1000))
    found["a"][5] = -1
    assert (found["b"][0].item(), found["e"].shape) == (-1, (0,))
    assert path.read_bytes() == before
    save(found, path)  # while it is mapped
    assert load(path)["a"][5].item() == -1


def test_paths_and_files(tmp_path: Any) -> None:
    save({"x": ad.ones(2)}, tmp_path / "some.model.pt")
    with zipfile.ZipFile(tmp_path / "some.model.pt") as file:
        assert file.testzip() is None
        assert {name.partition("/")[0] for name in file.namelist()} == {"some.model"}
    assert load(str(tmp_path / "some.model.pt"))["x"].tolist() == [1, 1]
    with open(tmp_path / "two", "wb+") as file:
        file.write(b"before")
        save([1, ad.zeros(1)], file)
        file.seek(6)
        assert load(file)[0] == 1
    with open(tmp_path / "text", "w", encoding="utf-8") as text, pytest.raises(TypeError, match="text mode"):
        save(1, text)  # type: ignore[arg-type]
    assert_raises(AttributeError, "load: f must be a path or an open binary file", load, 3)
    assert_raises(ValueError, "only a file given by its path can be mapped", lambda: load(saved(1), mmap=True))
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")


@pytest.mark.parametrize("where", ["meta", ad.device("meta")])
def test_to_meta(where: Any) -> None:
    """Shapes and types come, values do not."""
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    state = load(saved(module.state_dict()), map_location=where)
    assert {(t.is_meta, t.shape, t.dtype) for t in state.values()} == {
        (True, t.shape, t.dtype) for t in module.state_dict().values()
    }
    whole = load(saved(module), map_location=where, weights_only=False)
    assert whole[0].weight.is_meta
    assert isinstance(whole[0].weight, nn.Parameter)
    assert whole[0].weight.requires_grad


def test_tensors_without_values_are_saved() -> None:
    """As PyTorch writes and reads them."""
    torch = pytest.importorskip("torch")
    with ad.device("meta"):
        module = nn.Linear(3, 2).to(ad.bfloat16)
    given = {**module.state_dict(), "p": module.weight, "q": ad.ones(2, device="meta", requires_grad=True)}
    file = saved(given)
    for found, kind in ((load(file), nn.Parameter), (torch.load(io.BytesIO(file.getvalue())), torch.nn.Parameter)):
        assert all(t.is_meta for t in found.values())
        assert [tuple(t.shape) for t in found.values()] == [(2, 3), (2,), (2, 3), (2,)]
        assert [t.requires_grad for t in found.values()] == [False, False, True, True]
        assert isinstance(found["p"], kind)
        assert str(found["p"].dtype).endswith("bfloat16")
    assert load(saved(torch.ones(2, 3, device="meta"), torch)).is_meta


def test_map_location_and_other_options() -> None:
    for given_one in (None, "cpu", ad.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert load(saved(ad.ones(1)), map_location=given_one, weights_only=True).tolist() == [1]
    assert_raises(RuntimeError, "on the CPU only", lambda: load(saved(1), map_location="cuda:0"))
    assert_raises(ValueError, "pickle_module is not used", lambda: load(saved(1), pickle_module=io))
    assert load(saved(1, pickle_module=pickle, pickle_protocol=4), pickle_module=pickle) == 1


def test_tensors_of_other_devices_come_here() -> None:
    file = saved(torch.ones(2), torch)
    archive = Archive(file)
    records = [(name, archive.read(name)) for name in archive.records]
    moved = [(name, data.replace(b"\x03\0\0\0cpu", b"\x06\0\0\0cuda:0")) for name, data in records]
    assert moved != records
    assert load(io.BytesIO(joined(write_archive(moved)))).tolist() == [1, 1]


class Config:
    def __init__(self, width: int) -> None:
        self.width = width


@dataclass
class Options:
    rate: float = 0.1
    names: list[str] = field(default_factory=list)


class Active:
    def __setstate__(self, state: Any) -> None:
        raise AssertionError("code was run")


class Callable_:
    def __call__(self) -> None:
        raise AssertionError("code was run")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.activation = ad.relu
        self.register_buffer("count", ad.zeros(1))

    def forward(self, x: Any) -> Any:
        return self.activation(self.linear(x))


def test_classes_need_to_be_allowed() -> None:
    file = saved({"config": Config(3)})
    name = f"{__name__}.Config"
    assert_raises(FileError, rf"Unsupported global: GLOBAL {name} was not.*add_safe_globals\(\[{name}\]\)", load, file)
    with serialization.safe_globals([Config]):
        assert serialization.get_safe_globals() == [Config]
        file.seek(0)
        assert load(file)["config"].width == 3
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([(Options, name)])
    try:
        file.seek(0)
        assert type(load(file)["config"]) is Options
    finally:
        serialization.clear_safe_globals()
    file.seek(0)
    assert_raises(pickle.UnpicklingError, "Unsupported global", load, file)


def test_what_is_read_anyway_may_be_allowed() -> None:
    from numpy._core.multiarray import _reconstruct

    value = {"keys": np.arange(4, dtype=np.uint32), "scalar": np.float32(2)}
    with serialization.safe_globals([_reconstruct, np.ndarray, np.dtype, type(np.dtype(np.uint32))]):
        found = load(saved(value, torch))
    assert (found["keys"].dtype, found["keys"].tolist(), found["scalar"]) == (np.uint32, [0, 1, 2, 3], 2)


def test_modules_and_plain_classes_of_the_program() -> None:
    value = {"net": Net(), "config": Config(3), "options": Options(0.2, ["a"]), "args": argparse.Namespace(lr=1)}
    found = load(saved(value), weights_only=False)
    x = ad.randn(4, 2)
    assert found["net"](x).tolist() == value["net"](x).tolist()  # type: ignore[operator]
    assert list(found["net"].state_dict()) == ["count", "linear.weight", "linear.bias"]
    assert isinstance(found["net"].linear.weight, nn.Parameter)
    assert (found["config"].width, found["options"]) == (3, value["options"])
    assert found["args"].lr == 1


@pytest.mark.parametrize("value", [Active(), Callable_(), print, np.random.default_rng(0), ValueError(), io.BytesIO()])
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_could_act_stays_out(value: Any, weights_only: bool) -> None:
    if isinstance(value, Active):
        value.x = 1  # type: ignore[attr-defined]
    assert_raises(FileError, "Unsupported global", lambda: load(saved(value), weights_only=weights_only))


def test_arrays_and_scalars_of_numpy() -> None:
    array = np.arange(6.0).reshape(2, 3)
    value: list[Any] = [
        array, array, array.T, np.float32(1.5), np.int64(-3), np.bool_(True), np.zeros(0), array.astype(">i2"),
    ]  # fmt: skip
    for found in (load(saved(value)), from_torch(value), from_torch(value, pickle_protocol=4)):
        assert found[0] is found[1]
        for a, b in zip(value, found, strict=True):
            assert type(a) is type(b)
            assert (a.dtype.newbyteorder("="), a.shape, a.tolist()) == (b.dtype, b.shape, b.tolist())
    generator = ad.Generator().manual_seed(3)
    state = load(saved({"generator": generator.get_state()}))["generator"]
    assert ad.Generator().set_state(state).initial_seed() == 3
    for refused in (np.array([print]), np.array(["text"]), np.zeros(2, [("a", "f4")]), np.zeros(1, "M8[s]")):
        with pytest.raises(FileError, match=r"elements other than numbers|not plain"):
            load(saved(refused), weights_only=False)


def test_what_cannot_be_pickled_leaves_the_old_file(tmp_path: Any) -> None:
    save(1, tmp_path / "x")
    with pytest.raises((AttributeError, pickle.PicklingError)):
        save({"f": lambda: 1}, tmp_path / "x")
    assert load(tmp_path / "x") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_safetensors_are_read_by_the_same_function(tmp_path: Any) -> None:
    serialization.save_safetensors({"a": ad.ones(2)}, tmp_path / "x")
    for mapped in (False, True):
        assert load(tmp_path / "x", mmap=mapped)["a"].tolist() == [1, 1]
    pytest.importorskip("ml_dtypes")
    other = pytest.importorskip("safetensors.torch")
    other.save_file({"b": torch.ones(3, dtype=torch.bfloat16)}, tmp_path / "y")
    for mapped in (False, True):
        assert load(tmp_path / "y", mmap=mapped)["b"].dtype is ad.bfloat16
    serialization.save_safetensors({"b": ad.ones(3, dtype=ad.bfloat16)}, tmp_path / "z")
    assert other.load_file(tmp_path / "z")["b"].dtype is torch.bfloat16


def test_a_large_archive_has_64_bit_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    from adjoint.serialization import zip_archive as archive

    monkeypatch.setattr(archive, "ZIP64_SIZE", 100)
    monkeypatch.setattr(archive, "ZIP64_COUNT", 3)
    records = [("x/a", b"1" * 99), ("x/b", b"2" * 105), ("x/c", b"3" * 130), ("x/d", b"")]
    data = joined(write_archive(records))
    monkeypatch.undo()
    data = data.replace((100).to_bytes(4, "little"), b"\xff\xff\xff\xff")
    found = Archive(io.BytesIO(data))
    assert [(name, found.read(name)) for name in found.records] == records


KEYS = st.one_of(st.text(max_size=4), st.integers(), st.none(), st.booleans(), st.floats(allow_nan=False))
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.binary())
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
        st.sets(KEYS, max_size=3),
    ),
    max_leaves=10,
)


@given(VALUES)
def test_plain_values_both_ways(value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for found in (load(saved(value)), to_torch(value), from_torch(value), from_torch(value, pickle_protocol=5)):
            assert plain(found) == plain(value)


def test_aligned_whatever_the_name() -> None:
    for length in range(1, 70):
        archive = Archive(io.BytesIO(joined(write_archive([("n" * length, b"x" * length), ("m", b"1")]))))
        assert all(record.begin % 64 == 0 for record in archive.records.values())


def test_an_open_file_is_whole_before_it_is_closed(tmp_path: Path) -> None:
    place = tmp_path / "x.pt"
    with place.open("wb") as file:
        ad.save({"x": ad.ones(3)}, file)
        assert ad.load(place)["x"].tolist() == [1.0, 1.0, 1.0]
