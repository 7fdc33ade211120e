"""Weights of convolutions in the order of channels last: PyTorch's strides, and the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")


@pytest.mark.parametrize("rank", [2, 3])
def test_weights_lie_as_pytorchs_do(rank: int) -> None:
    name = "channels_last" if rank == 2 else "channels_last_3d"
    found = []
    for library in (ad, torch):
        nn = library.nn
        conv, transposed = getattr(nn, f"Conv{rank}d"), getattr(nn, f"ConvTranspose{rank}d")
        model = nn.Sequential(conv(3, 4, 3), nn.Sequential(transposed(4, 2, 2)), nn.Linear(2, 2), nn.Conv1d(2, 2, 2))
        kept = [p.detach().numpy().copy() for p in model.parameters()]
        convert = getattr(nn.utils, f"convert_conv{rank}d_weight_memory_format")
        assert convert(model, getattr(library, name)) is model
        for before, p in zip(kept, model.parameters(), strict=True):
            np.testing.assert_array_equal(before, p.detach().numpy())
        found.append([tuple(p.stride()) for p in model.parameters()])
    assert found[0] == found[1]
