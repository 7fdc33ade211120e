"""`adjoint._utils`: lists of tensors laid end to end, and PyTorch's tensors in files of Python's own pickle."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import _utils as ours

torch: Any = pytest.importorskip("torch")
theirs = torch._utils
SIZES = [(2, 3), (4,), (), (1, 5)]


def tensors(t: Any) -> list[Any]:
    return [t.arange(1.0, 1 + t.zeros(size).numel()).reshape(size) for size in SIZES]


def test_flat_and_back() -> None:
    flat = ours._flatten_dense_tensors(tensors(ad))
    assert flat.tolist() == theirs._flatten_dense_tensors(tensors(torch)).tolist()
    parts = ours._unflatten_dense_tensors(flat, tensors(ad))
    assert [part.shape for part in parts] == SIZES
    assert parts[1].data_ptr() == flat[6:].data_ptr()


@pytest.mark.parametrize("limit", [1, 30, 41, 1000])
def test_taken_in_pieces(limit: int) -> None:
    def pieces(t: Any, utils: Any) -> Any:
        mixed = [each.double() if i % 2 else each for i, each in enumerate(tensors(t))]
        return [[tuple(each.shape) for each in taken] for taken in utils._take_tensors(mixed, limit)]

    assert pieces(ad, ours) == pieces(torch, theirs)


def test_ordered_as_others() -> None:
    def kinds(t: Any, utils: Any) -> Any:
        mixed = [t.ones(1).double(), t.ones(2), t.ones(3)]
        like = [t.ones(1), t.ones(1).double(), t.ones(1)]
        return [x.tolist() for x in utils._reorder_tensors_as(mixed, like)]

    assert kinds(ad, ours) == kinds(torch, theirs)


def test_a_property_of_a_class() -> None:
    class Named:
        name = ours.classproperty(lambda cls: cls.__name__)

    assert Named.name == "Named"


def test_pickles_of_pytorch(tmp_path: Path) -> None:
    x = torch.arange(6.0).view(2, 3).t()
    value = {"x": x, "p": torch.nn.Parameter(torch.ones(2)), "half": torch.ones(2, dtype=torch.bfloat16)}
    (tmp_path / "it.pkl").write_bytes(pickle.dumps(value))
    (tmp_path / "read.py").write_text(
        "import pickle, sys\n"
        "found = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(found['x'].tolist(), found['p'].requires_grad, found['half'].dtype, type(found['p']))\n"
    )
    command = [sys.executable, "-m", "adjoint.run", str(tmp_path / "read.py"), str(tmp_path / "it.pkl")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{x.tolist()} True torch.bfloat16 <class 'torch.nn.parameter.Parameter'>"
