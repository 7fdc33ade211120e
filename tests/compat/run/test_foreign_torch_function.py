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
