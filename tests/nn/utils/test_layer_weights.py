"""Weights of convolutions in the order of channels last: PyTorch's strides, and the same values."""

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


def test_a_module_goes_to_a_memory_format_and_back() -> None:
    found = []
    for library in (ad, torch):
        model = library.nn.Sequential(library.nn.Conv2d(1, 4, 3), library.nn.Conv2d(4, 2, 3), library.nn.Linear(2, 2))
        for name in ("channels_last", "preserve_format", "contiguous_format"):
            model.to(memory_format=getattr(library, name))
            found.append([tuple(p.stride()) for p in model.parameters()])
    assert found[:3] == found[3:]
    assert found[0] != found[2]


def test_a_memory_format_and_a_dtype_at_once() -> None:
    found = []
    for library in (ad, torch):
        model = library.nn.Conv2d(1, 4, 3).to(library.float64, memory_format=library.channels_last)
        found.append((tuple(model.weight.stride()), str(model.weight.dtype).partition(".")[2], model.bias.stride()))
    assert found[0] == found[1]
