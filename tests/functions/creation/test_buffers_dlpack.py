"""Memory shared with NumPy, PyTorch and buffers, both ways, and what backward makes of writes through it."""

import array
import copy
import pickle
from typing import Any

import numpy as np
import pytest
from adjoint.utils.dlpack import from_dlpack, to_dlpack
from tests.support.errors import assert_raises, errors_of

import adjoint as ad

KINDS = ["bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("kind", KINDS)
def test_dlpack_with_numpy_shares_memory(kind: str) -> None:
    given = np.zeros((2, 3), kind)[:, ::2]
    ours = ad.from_dlpack(given)
    assert (ours.dtype, tuple(ours.shape), ours.stride()) == (given.dtype, (2, 2), (3, 2))
    given[1, 1] = 1
    assert ours[1, 1].item() == 1
    theirs = np.from_dlpack(ours)
    ours[0, 0] = 1
    assert theirs[0, 0] == 1
    assert given[0, 0] == 1


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "uint16"])
def test_dlpack_with_torch_shares_memory(kind: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.zeros((2, 3), dtype=getattr(torch, kind)).t()
    ours = ad.from_dlpack(theirs)
    assert (ours.dtype.name, ours.stride()) == (kind, theirs.stride())
    theirs[2, 1] = 1
    assert ours[2, 1].item() == 1
    ours[0, 0] = 1
    assert theirs[0, 0].item() == 1
    back = torch.from_dlpack(ours)
    back[1, 0] = 1
    assert ours[1, 0].item() == 1
    assert theirs[1, 0].item() == 1


def test_capsules() -> None:
    torch = pytest.importorskip("torch")
    ours = ad.arange(3.0)
    theirs = torch.utils.dlpack.from_dlpack(to_dlpack(ours))
    theirs[0] = 9.0
    assert ours.tolist() == [9, 1, 2]
    again = from_dlpack(torch.utils.dlpack.to_dlpack(theirs))
    again[1] = 8.0
    assert ours.tolist() == [9, 8, 2]
    assert_raises(TypeError, "speaks DLPack", from_dlpack, 3)


def test_a_copy_is_apart() -> None:
    given = np.zeros(2)
    ours = ad.from_dlpack(given, copy=True)
    given[0] = 1
    assert ours.tolist() == [0, 0]
    theirs = np.from_dlpack(ours, copy=True)
    ours[1] = 1
    assert theirs.tolist() == [0, 0]


def test_what_dlpack_refuses() -> None:
    x = ad.ones(2, requires_grad=True)
    assert_raises(BufferError, "require gradient", x.__dlpack__)
    assert_raises(BufferError, "require gradient", lambda: np.from_dlpack(x * 2))
    assert_raises(BufferError, "CPU only", lambda: x.detach().__dlpack__(dl_device=(2, 0)))
    assert_raises(BufferError, "no streams", lambda: x.detach().__dlpack__(stream=1))
    assert_raises(RuntimeError, "CPU only", lambda: ad.from_dlpack(np.ones(2), device="cuda"))
    assert_raises(ValueError, "cannot be shared", lambda: ad.from_dlpack(np.ones(3)[::-1], copy=False))


@pytest.mark.parametrize("through", ["np.from_dlpack(x.detach())", "torch.from_dlpack(x.detach())"])
def test_a_write_from_outside_is_seen_by_backward(through: str) -> None:
    torch = pytest.importorskip("torch")
    x = ad.ones(3, requires_grad=True)
    y = x.exp()
    out = (y * y).sum()
    outside = eval(through, {"np": np, "torch": torch, "x": y})
    outside[0] = 5.0
    assert_raises(RuntimeError, "modified by an inplace operation", out.backward)


def test_memory_given_is_copied_by_what_keeps_it() -> None:
    given = np.ones(3)
    x = ad.from_dlpack(given)
    w = ad.ones(3, dtype=ad.float64, requires_grad=True)
    out = (x * w).sum()
    given[:] = 7.0
    out.backward()
    assert w.grad.tolist() == [1, 1, 1]


def test_frombuffer() -> None:
    torch = pytest.importorskip("torch")
    room = bytearray(np.arange(6, dtype=np.int16).tobytes())
    ours = ad.frombuffer(room, dtype=ad.int16, count=3, offset=2)
    assert ours.tolist() == torch.frombuffer(room, dtype=torch.int16, count=3, offset=2).tolist() == [1, 2, 3]
    room[2] = 9
    assert ours.tolist() == [9, 2, 3]
    ours[1] = 5
    assert room[4] == 5
    assert ad.frombuffer(bytearray(8), dtype=ad.float32, requires_grad=True).requires_grad
    for call in (
        "t.frombuffer(bytearray(0), dtype=t.int8)", "t.frombuffer(bytearray(5), dtype=t.int16)",
        "t.frombuffer(bytearray(5), dtype=t.int8, count=9)", "t.frombuffer(bytearray(5), dtype=t.int8, offset=5)",
        "t.frombuffer(bytearray(5), dtype=t.int8, count=0)",
    ):  # fmt: skip
        ours, theirs = errors_of(lambda library, call=call: eval(call, {"t": library}), ad, torch)
        assert (type(ours), str(ours)) == (type(theirs), str(theirs)) == (ValueError, str(ours))
        assert "buffer length" in str(ours)


def test_asarray() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    assert ad.asarray(x) is x
    assert ad.asarray(y).requires_grad
    assert not ad.asarray(y, requires_grad=False).requires_grad
    assert ad.asarray(y, copy=True).data_ptr() != y.data_ptr()
    given = np.ones(2)
    shared, apart = ad.asarray(given), ad.asarray(given, copy=True)
    given[0] = 5
    assert shared.tolist() == [5, 1]
    assert apart.tolist() == [1, 1]
    assert ad.asarray(given, dtype=ad.float32).dtype is ad.float32
    assert ad.asarray(1.5).dtype is ad.float32
    assert ad.asarray([True]).dtype is ad.bool
    assert ad.asarray(np.float64(2.0)).dtype is ad.float64
    assert ad.asarray([1.0], requires_grad=True).requires_grad
    assert ad.asarray(bytearray(8)).tolist() == [0, 0]
    assert ad.asarray(array.array("i", [1, 2]), dtype=ad.int32).tolist() == [1, 2]

    class Sequence:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return given

    assert ad.asarray(Sequence()).tolist() == [5, 1]  # type: ignore[arg-type]
    for impossible, error in (([1], ValueError), (1.0, ValueError), (np.float32(1), RuntimeError)):
        assert_raises(error, "can't alias", ad.asarray, impossible, copy=False)
    assert_raises(ValueError, "can't alias", ad.asarray, given, dtype=ad.float32, copy=False)
    assert_raises(ValueError, "can't alias", ad.asarray, x, dtype=ad.float64, copy=False)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_lists_copies_and_pickles(kind: str) -> None:
    x = ad.tensor([[0, 1], [1, 1]], dtype=getattr(ad, kind))
    assert np.asarray(x).dtype == kind
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.complex128).dtype == np.complex128
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.dtype("f2" if kind != "float16" else "f4"), copy=False)
    assert x.tolist() == np.asarray(x).tolist()
    for twin in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert twin.dtype is x.dtype
        assert twin.tolist() == x.tolist()
    assert copy.deepcopy(x).data_ptr() != x.data_ptr()


def test_deepcopy_and_pickle_of_a_leaf_with_its_gradient() -> None:
    x = ad.ones(2, requires_grad=True)
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.requires_grad
    assert twin.grad.tolist() == [2, 2]
    assert twin.grad is not x.grad
    assert pickle.loads(pickle.dumps(x)).requires_grad
    shallow = copy.copy(x)
    assert shallow.requires_grad
    assert shallow.data_ptr() == x.data_ptr()
    assert_raises(RuntimeError, "graph leaves", lambda: copy.deepcopy(x * 2))


def test_numpy_wants_no_gradient_lost() -> None:
    x = ad.ones(2, requires_grad=True)
    for call in (np.asarray, np.array, lambda t: t.numpy()):
        assert_raises(RuntimeError, "requires grad", call, x)
