"""Small programs that train badly without an error, each with its corrected twin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PRELUDE = """\
import numpy as np
import adjoint as torch
from adjoint import nn, optim
import adjoint.nn.functional as F
from adjoint.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
"""


@dataclass(frozen=True)
class Mistake:
    """A program with a mistake: the line to blame is marked `# !`.

    `name`: what the finding names; `corrections`: the texts to replace, each with what makes it right.
    """

    title: str
    kind: str
    name: str
    source: str
    corrections: tuple[tuple[str, str], ...]

    @property
    def mistaken(self) -> str:
        """The program as it was written."""
        return PRELUDE + self.source

    @property
    def corrected(self) -> str:
        """The program without its mistake."""
        text = self.source
        for old, new in self.corrections:
            if old not in text:
                raise ValueError(f"{self.title}: {old!r} is not in the program")
            text = text.replace(old, new)
        return PRELUDE + text

    @property
    def blamed_line(self) -> int:
        """The number of the line to blame."""
        lines = self.mistaken.splitlines()
        return next(i for i, line in enumerate(lines, 1) if line.endswith("# !"))


CLASSIFIER = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 24)
        self.fc2 = nn.Linear(24, 3)
    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))

x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1)
"""
LOOP = """\
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
"""
REGRESSION = """\
x = torch.randn(40, 5)
w = torch.randn(5)
t = x @ w
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
opt = optim.Adam(model.parameters(), lr=0.01)
"""


def read_blocks(name: str) -> dict[str, str]:
    """Return the programs of a text file of this folder, by the title after `###`."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    blocks = (block.partition("\n") for block in re.split(r"^### ", text, flags=re.MULTILINE)[1:])
    return {title: body for title, _, body in blocks}


def read_mistakes(name: str) -> list[Mistake]:
    """Return the mistakes of a text file: `### title | kind | name`, then lines that both twins have, or one (-, +)."""
    found = []
    for head, body in read_blocks(name).items():
        title, kind, blamed = (part.strip() for part in head.split("|"))
        lines = [(line[:1], line[1:]) for line in body.splitlines()]
        mistaken, corrected = ("".join(f"{text}\n" for mark, text in lines if mark != other) for other in ("+", "-"))
        found.append(Mistake(title, kind, blamed, mistaken, ((mistaken, corrected),)))
    return found
