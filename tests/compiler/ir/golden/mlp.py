"""The step whose graphs are kept beside this file: a line moved here changes them all."""

from __future__ import annotations

from typing import Any

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

ad.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def step(x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
