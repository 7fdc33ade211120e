"""Classes that are no tensors and answer for public functions: asked where PyTorch asks them."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.scripts import run

ANSWERING = """
import sys
import torch
import torch.nn.functional as F

TABLE = {}

class Diagonal:
    TABLE[torch.abs] = "in a table"

    def __init__(self, size):
        self.size = size

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.neg:
            return NotImplemented
        where = [i for i, x in enumerate(args) if isinstance(x, cls)]
        return func.__name__, [t.__name__ for t in types], where, sorted(kwargs or {}), TABLE.get(func)

    def __rsub__(self, other):
        return "not reached"

class Silent:
    def __radd__(self, other):
        return "its own"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented

d, t = Diagonal(3), torch.ones(2)
print(torch.mean(d), torch.add(t, d), torch.abs(d), torch.diagonal(d, dim1=-1, dim2=-2), torch.stack([t, d]))
print(F.gelu(d), torch.linalg.cholesky(d), torch.fft.rfft(d), torch.special.entr(d))
print(t + d, t - d, t @ d, t == d, t.add(d), t.matmul(d), t.add_(d))
print(t + Silent(), t + 1, t @ t, t == "text")
for wrong in (lambda: torch.neg(d), lambda: torch.neg(Silent())):
    try:
        wrong()
    except TypeError as error:
        print(str(error).splitlines()[0])
"""
FRAMES = """
import sys
import torch

class Meta(type):
    def __new__(cls, name, bases, names):
        found = super().__new__(cls, name, bases, names)
        found.place = sys._getframe(1).f_code.co_name
        return found

def inside():
    class Part(metaclass=Meta):
        pass
    return Part.place

print(inside())
"""


@pytest.mark.parametrize("program", [ANSWERING, FRAMES])
def test_a_program_prints_what_it_prints_with_pytorch(tmp_path: Path, program: str) -> None:
    pytest.importorskip("torch")
    mine = run(tmp_path, "program.py", program=program)
    theirs = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert mine.out.splitlines() == theirs.stdout.splitlines()


KEYWORDS = """
import torch

class Registered(type):
    def __new__(cls, kind, bases, fields, name=None, body=None):
        made = super().__new__(cls, kind, bases, fields)
        made.registered = name, body
        return made

    def __init__(cls, *_, **__):
        pass

class Answering(metaclass=Registered, name="its name", body=3):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__

print(Answering.registered, torch.neg(Answering()))
"""

PRIVATE = """
import torch
import torch._VF
from torch import TensorType, _VF
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils.stateless import _functional_call

layer = torch.nn.MultiheadAttention(4, 2).out_proj
print(type(layer) is NonDynamicallyQuantizableLinear, torch._utils._element_size(torch.float16), TensorType.__name__)
print(_functional_call(layer, {"weight": torch.eye(4), "bias": torch.ones(4)}, torch.ones(4)).tolist())
cell, x, h = torch.nn.GRUCell(3, 4), torch.ones(2, 3), torch.zeros(2, 4)
print(torch.equal(_VF.gru_cell(x, h, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh), cell(x, h)))
print(torch.ops.aten.native_layer_norm.default(torch.ones(2, 3), [3], None, None, 1e-5)[0].tolist(),
      torch.ops.aten.add.Tensor(x, x).sum().item(), torch.ops.aten.relu(h).sum().item())
try:
    torch.ops.aten.no_such_op(x)
except NotImplementedError as error:
    print(error)
"""


@pytest.mark.parametrize(("program", "printed"), [
    (KEYWORDS, "('its name', 3) neg"),
    (PRIVATE, """True 2 TensorType
[2.0, 2.0, 2.0, 2.0]
True
[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]] 12.0 0.0
there is no op aten.no_such_op here"""),
], ids=["class keywords", "private names"])  # fmt: skip
def test_programs_of_pytorch(tmp_path: Path, program: str, printed: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "adjoint.run", str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == printed
