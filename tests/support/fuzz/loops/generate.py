"""Random training loops, made of the fragments: the text of a whole program for each number."""

from __future__ import annotations

import re
from random import Random
from typing import NamedTuple

from tests.support.fuzz.loops.fragments import GROUPS

CALLS = 8
PHASES = ("setup", "begin", "forward", "loss", "gradients", "update", "end", "between", "watch")
ACTIVATIONS = ("ReLU", "Tanh", "GELU", "SiLU", "Softplus")
PARAMETERS = ("model[0].weight", "model[0].bias", "model[2].weight", "model[2].bias")
LOSSES = ("F.mse_loss(out, ad.zeros_like(out))", "F.cross_entropy(out, y)", "F.smooth_l1_loss(out, out.detach() * 0.5)")
OPTIMIZERS = (
    "optim.SGD(model.parameters(), lr=0.05)", "optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)",
    "optim.Adam(model.parameters(), lr=0.01)", "optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)",
    "optim.RMSprop(model.parameters(), lr=0.01)", "optim.Adagrad(model.parameters(), lr=0.05)",
    'optim.Adam([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.002}], lr=0.01)',
    'optim.SGD([{"params": [model[0].weight], "weight_decay": 0.1}, {"params": model[2].parameters()}], lr=0.05)',
)  # fmt: skip
CLEARING = {
    "begin": "    optimizer.zero_grad()\n", "keep": "    optimizer.zero_grad(set_to_none=False)\n", "end": "",
    "every second": "    if k % 2 == 0:\n        optimizer.zero_grad()\n",
}  # fmt: skip
UPDATE = "    loss.backward()\n{gradients}    optimizer.step()\n{update}{clear}"
PROGRAM = """
import copy
from dataclasses import dataclass
from types import SimpleNamespace
import numpy as np
import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
ad.manual_seed(0)
box, log, k = SimpleNamespace(), [], 0
model = nn.Sequential(nn.Linear(4, 8), nn.{activation}(), nn.Linear(8, 3))
optimizer = {optimizer}
{setup}
def step(x, y):
    h, result = x, None
{begin}{clear}{forward}    out = model(h)
    loss = {loss_function}
{loss}{update}{end}    return loss if result is None else result
{outside}
def between():
    global {names}
{between}
def watch():
    return [
{watched}    ]
"""


class Fragment(NamedTuple):
    """One habit: its lines by phase."""

    name: str
    lines: tuple[tuple[str, str], ...]  # phase and code


class Loop(NamedTuple):
    """A training loop: what is fixed for it, and its fragments."""

    model: str
    optimizer: str
    loss: str
    clearing: str  # where gradients are cleared: "begin", "keep" (zeros instead of None), "end", "every second"
    backward_outside: bool
    sizes: tuple[int, ...]  # of the batches, in turn
    fragments: tuple[Fragment, ...]

    def phase(self, phase: str, depth: int) -> str:
        """Return the lines of a phase, indented."""
        lines = (code for f in self.fragments for where, code in f.lines if where == phase)
        return "".join("    " * depth + line + "\n" for code in lines for line in code.split("\n"))

    def __str__(self) -> str:
        update = UPDATE.format(
            gradients=self.phase("gradients", 1), update=self.phase("update", 1),
            clear=CLEARING["begin"] if self.clearing == "end" else "",
        )  # fmt: skip
        watched = (code for f in self.fragments for phase, code in f.lines if phase == "watch")
        return PROGRAM.format(
            activation=self.model, optimizer=self.optimizer, loss_function=self.loss, setup=self.phase("setup", 0),
            begin=self.phase("begin", 1), clear=CLEARING[self.clearing], forward=self.phase("forward", 1),
            loss=self.phase("loss", 1), update="" if self.backward_outside else update, end=self.phase("end", 1),
            outside=f"def update(loss):\n{update}    return loss\n" if self.backward_outside else "",
            names=", ".join(self.global_names()), between=self.phase("between", 1),
            watched="".join(f"        {code},\n" for code in watched),
        )  # fmt: skip

    def global_names(self) -> list[str]:
        """Return `k` and the global names which the lines between calls set."""
        code = self.phase("between", 0)
        return sorted({"k", *re.findall(r"(?:^|: |\n\s*)([A-Za-z]\w*) = ", code)})


def parse_fragments() -> dict[str, list[tuple[tuple[str, str], ...]]]:
    """Return the fragments of each group, as pairs of phase and code."""
    groups = {}
    for group, text in GROUPS.items():
        groups[group] = [_parse(each) for each in text.strip().split("\n---\n")]
    return groups


def _parse(text: str) -> tuple[tuple[str, str], ...]:
    lines: list[tuple[str, str]] = []
    for line in text.split("\n"):
        phase, colon, code = line.partition(": ")
        if colon and phase in PHASES:
            lines.append((phase, code))
        else:
            assert line.startswith("    "), line
            lines[-1] = (lines[-1][0], lines[-1][1] + "\n" + line[4:])
    return tuple(lines)


def write_loop(seed: int) -> Loop:
    """Return the loop of this number."""
    random = Random(seed)
    groups = parse_fragments()
    outside = random.random() < 0.15
    fragments = []
    for i in range(random.choice([1, 2, 2, 3, 3, 4, 5])):
        group = random.choice(list(groups))
        number = random.randrange(len(groups[group]))
        fill = {
            "i": str(i), "c": random.choice(["0.25", "0.5", "1.5", "2.0"]), "m": str(random.randint(1, 5)),
            "p": random.choice(PARAMETERS), "q": random.choice(PARAMETERS),
        }  # fmt: skip
        if fill["q"] == fill["p"]:
            fill["q"] = PARAMETERS[(PARAMETERS.index(fill["p"]) + 1) % 4]
        lines = tuple((phase, _fill(code, fill)) for phase, code in groups[group][number])
        fragments.append(Fragment(f"{group} {number}", lines))
    # a backward() outside does not repeat what a block does besides computing, as docs/compile.md says
    outside = outside and not any("checkpoint(norm" in code for f in fragments for _, code in f.lines)
    sizes = random.choice([(4,), (4,), (4,), (4, 6), (4, 4, 4, 2)])
    return Loop(
        random.choice(ACTIVATIONS), random.choice(OPTIMIZERS), random.choice(LOSSES),
        random.choice(["begin", "begin", "begin", "keep", "end", "every second"]), outside, sizes, tuple(fragments),
    )  # fmt: skip


def _fill(code: str, values: dict[str, str]) -> str:
    return re.sub(r"\{([icmpq])\}", lambda m: values[m[1]], code)
