"""What objects of adjoint say of themselves where it stands in for PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scripts import run

SHOWN = """
    import io, pickle
    import torch

    x = torch.zeros(2, 3, dtype=torch.float64)
    print(x.dtype, x.shape, x.type(), torch.typename(x), torch.strided, torch.channels_last)
    print(type(x), type(x.shape), type(x.dtype), type(x.device), type(x).__module__, x[0])
    print(x.dtype is eval(repr(x.dtype)), getattr(torch, str(x.dtype).split(".")[1]) is x.dtype)
    for each in (x, x.shape, x.dtype, x.device, torch.nn.Parameter(x)):
        assert repr(pickle.loads(pickle.dumps(each))) == repr(each)
    file = io.BytesIO()
    torch.save({"x": x, "shape": x.shape, "dtype": x.dtype}, file)
    print(b"torch\\nTensor" in file.getvalue(), torch.load(io.BytesIO(file.getvalue())))
"""


@pytest.mark.needs_processes
def test_they_speak_of_torch(tmp_path: Path) -> None:
    done = run(tmp_path, "script.py", script=SHOWN)
    assert (done.status, done.error) == (0, "")
    told = done.out.splitlines()
    assert told[0] == (
        "torch.float64 torch.Size([2, 3]) torch.DoubleTensor torch.DoubleTensor torch.strided torch.channels_last"
    )
    classes = " ".join(f"<class 'torch.{name}'>" for name in ("Tensor", "Size", "dtype", "device"))
    assert told[1] == f"{classes} torch tensor([0., 0., 0.], dtype=torch.float64)"
    assert told[2] == "True True"
    assert told[3].startswith("False {'x': tensor(")
    assert "adjoint" not in done.out
