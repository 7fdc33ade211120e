"""torchvision's operators: by definitions in plain loops, with gradients by central differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import library
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.compat.functions import torchvision_ops as ops

RNG = np.random.default_rng(0)
# image, x1, y1, x2, y2: inside, over each edge, outside, of no size, turned round
ROIS = np.array([
    [0, 0.3, 0.2, 4.4, 3.1], [1, 1, 1, 6.5, 7.0], [1, -3, -2, 2, 2.5], [0, 4, 3, 12, 9], [0, 20, 20, 30, 30],
    [1, 2, 2, 2, 2], [0, 5, 4, 3, 1], [1, 0, 0, 13, 11],
])  # fmt: skip


def images(channels: int) -> np.ndarray:
    return RNG.normal(size=(2, channels, 6, 7))


def bilinear(plane: np.ndarray, y: float, x: float) -> float:
    """A value between elements; beyond the outermost ones theirs, up to one element away."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    i, j = min(int(y), max(height - 2, 0)), min(int(x), max(width - 2, 0))
    rest_y, rest_x = y - i, x - j
    return float(
        plane[i, j] * (1 - rest_y) * (1 - rest_x) + plane[i, j + 1] * (1 - rest_y) * rest_x
        + plane[i + 1, j] * rest_y * (1 - rest_x) + plane[i + 1, j + 1] * rest_y * rest_x
    )  # fmt: skip


def align(x: np.ndarray, roi: np.ndarray, channel: int, i: int, j: int, h: int, w: int, **how: Any) -> float:
    """One element of `roi_align`."""
    x1, y1, x2, y2 = roi[1:] * how["scale"] - (0.5 if how["aligned"] else 0.0)
    width, height = (x2 - x1, y2 - y1) if how["aligned"] else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
    ratio = how["ratio"]
    rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(height / h), math.ceil(width / w))
    total = 0.0
    for a in range(rows):
        for b in range(columns):
            y, x_place = y1 + (i + (a + 0.5) / rows) * height / h, x1 + (j + (b + 0.5) / columns) * width / w
            total += bilinear(x[int(roi[0]), channel], y, x_place)
    return total / max(rows * columns, 1)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 1, 2])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_roi_align(scale: float, ratio: int, aligned: bool) -> None:
    x = images(2)
    got = ops.roi_align(ad.from_numpy(x), ad.from_numpy(ROIS), scale, 2, 3, ratio, aligned).numpy()
    for k, c, i, j in np.ndindex(got.shape):
        expected = align(x, ROIS[k], c, i, j, 2, 3, scale=scale, ratio=ratio, aligned=aligned)
        assert got[k, c, i, j] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ratio", [-1, 2])
def test_ps_roi_align(ratio: int) -> None:
    x = images(12)
    rois = ROIS[ROIS[:, 3] > ROIS[:, 1]]
    got, own = (t.numpy() for t in ops.ps_roi_align(ad.from_numpy(x), ad.from_numpy(rois), 1.0, 2, 3, ratio))
    for k, c, i, j in np.ndindex(got.shape):
        assert own[k, c, i, j] == (c * 2 + i) * 3 + j
        expected = align(x, rois[k], own[k, c, i, j], i, j, 2, 3, scale=1.0, ratio=ratio, aligned=True)
        assert got[k, c, i, j] == pytest.approx(expected, abs=1e-12)


def whole_bin(low: float, high: float, more: int, i: int, count: int, limit: int) -> range:
    """The rows of a bin between whole bounds."""
    begin, end = (math.floor(abs(v) + 0.5) * (1 if v >= 0 else -1) for v in (low, high))
    size = max(end - begin + more, 1) / count
    first, last = math.floor(i * size) + begin, math.ceil((i + 1) * size) + begin
    return range(min(max(first, 0), limit), min(max(last, 0), limit))


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_roi_pool(scale: float) -> None:
    x = images(2)
    got, places = (t.numpy() for t in ops.roi_pool(ad.from_numpy(x), ad.from_numpy(ROIS), scale, 2, 3))
    for k, c, i, j in np.ndindex(got.shape):
        image, x1, y1, x2, y2 = ROIS[k] * [1, scale, scale, scale, scale]
        rows, columns = whole_bin(y1, y2, 1, i, 2, 6), whole_bin(x1, x2, 1, j, 3, 7)
        values = {(a, b): x[int(image), c, a, b] for a in rows for b in columns}
        best = max(values, key=values.__getitem__) if values else None
        assert places[k, c, i, j] == (-1 if best is None else best[0] * 7 + best[1])
        assert got[k, c, i, j] == (0.0 if best is None else values[best])


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_ps_roi_pool(scale: float) -> None:
    x = images(12)
    got, own = (t.numpy() for t in ops.ps_roi_pool(ad.from_numpy(x), ad.from_numpy(ROIS), scale, 2, 3))
    for k, c, i, j in np.ndindex(got.shape):
        image, x1, y1, x2, y2 = ROIS[k] * [1, scale, scale, scale, scale]
        rows, columns = whole_bin(y1, y2, 0, i, 2, 5), whole_bin(x1, x2, 0, j, 3, 6)
        values = [x[int(image), own[k, c, i, j], a, b] for a in rows for b in columns]
        assert got[k, c, i, j] == pytest.approx(sum(values) / max(len(values), 1), abs=1e-12)


GRADIENTS = {
    "roi_align": lambda x, r: ops.roi_align(x, r, 0.7, 2, 3, -1, False),
    "ps_roi_align": lambda x, r: ops.ps_roi_align(x, r, 0.7, 2, 3, 2)[0],
    "roi_pool": lambda x, r: ops.roi_pool(x, r, 1.0, 2, 3)[0],
    "ps_roi_pool": lambda x, r: ops.ps_roi_pool(x, r, 1.0, 2, 3)[0],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_regions(name: str) -> None:
    x, rois = ad.from_numpy(images(6)).requires_grad_(), ad.from_numpy(ROIS)
    function = GRADIENTS[name]
    assert gradcheck(lambda x: function(x, rois), (x,), fast_mode=True)
    assert gradgradcheck(lambda x: function(x, rois) ** 2, (x,), fast_mode=True)


@pytest.mark.parametrize(("groups", "offset_groups", "stride", "dilation"), [(1, 1, 1, 1), (2, 1, 2, 1), (2, 4, 1, 2)])
def test_deform_conv2d(groups: int, offset_groups: int, stride: int, dilation: int) -> None:
    x, weight = ad.from_numpy(images(4)), ad.from_numpy(RNG.normal(size=(6, 4 // groups, 3, 2)))
    h, w = (6 + 2 - 2 * dilation - 1) // stride + 1, (7 + 2 - dilation - 1) // stride + 1
    bias, mask = ad.from_numpy(RNG.normal(size=6)), ad.from_numpy(RNG.uniform(size=(2, 6 * offset_groups, h, w)))
    offset = ad.from_numpy(RNG.normal(size=(2, 12 * offset_groups, h, w)) * 2)

    def call(x: Any, weight: Any, offset: Any, mask: Any, bias: Any, use_mask: bool = True) -> Any:
        numbers = (stride, stride, 1, 1, dilation, dilation, groups, offset_groups)
        return ops.deform_conv2d(x, weight, offset, mask, bias, *numbers, use_mask)

    plain = F.conv2d(x, weight, bias, stride, 1, dilation, groups)
    np.testing.assert_allclose(call(x, weight, offset * 0, mask, bias, False).numpy(), plain.numpy(), atol=1e-12)
    got, taps = call(x, weight, offset, mask, bias).numpy(), 6
    framed = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))  # 0 outside, and between the edge and there
    for n, o, i, j in np.ndindex(got.shape):
        total = bias.numpy()[o]
        for c, t in np.ndindex(4 // groups, taps):
            channel = o // (6 // groups) * (4 // groups) + c
            part = channel // (4 // offset_groups)
            y, x_place = (
                base + float(offset.numpy()[n, (part * taps + t) * 2 + axis, i, j])
                for axis, base in enumerate((i * stride - 1 + t // 2 * dilation, j * stride - 1 + t % 2 * dilation))
            )
            inside = -1 < y < 6 and -1 < x_place < 7
            value = bilinear(framed[n, channel], y + 1, x_place + 1) if inside else 0.0
            total += weight.numpy()[o, c, t // 2, t % 2] * value * mask.numpy()[n, part * taps + t, i, j]
        assert got[n, o, i, j] == pytest.approx(total, abs=1e-12)
    inputs = [t.detach().requires_grad_() for t in (x, weight, offset, mask, bias)]
    assert gradcheck(call, inputs, fast_mode=True)


def test_nms() -> None:
    boxes = ad.tensor([[0, 0, 2, 2.0], [0, 0, 2, 2.1], [5, 5, 6, 6], [0, 1, 2, 3], [1, 1, 1, 1], [1, 1, 1, 1]])
    scores = ad.tensor([0.5, 0.6, 0.7, 0.6, 0.1, 0.2])
    assert ops.nms(boxes, scores, 0.5).tolist() == [2, 1, 3, 5, 4]  # empty boxes overlap nothing, not even themselves
    assert ops.nms(boxes, scores, 0.2).tolist() == [2, 1, 5, 4]
    assert ops.nms(boxes[:0], scores[:0], 0.5).tolist() == []


@pytest.mark.parametrize(("call", "said"), [
    (lambda: ops.nms(ad.ones(3), ad.ones(3), 0.5), r"shape \(n, 4\), got \(3,\)"),
    (lambda: ops.nms(ad.ones(3, 4), ad.ones(2), 0.5), r"3 boxes, but scores of shape \(2,\)"),
    (lambda: ops.roi_align(ad.ones(1, 1, 4, 4), ad.ones(2, 4), 1.0, 2, 2, 1, True), r"roi_align: rois must have shape"),
    (lambda: ops.roi_pool(ad.ones(1, 1, 4, 4), ad.ones(2, 5).double(), 1.0, 2, 2), "input is adjoint.float32"),
    (lambda: ops.ps_roi_pool(ad.ones(1, 5, 4, 4), ad.zeros(2, 5), 1.0, 2, 2), "5 input channels are no mult"),
])  # fmt: skip
def test_bad_input(call: Any, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        call()


def test_the_library_is_loaded_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(library.ops), "torchvision", raising=False)
    library.ops.load_library("/anywhere/site-packages/torchvision/_C.so")
    assert library.ops.torchvision.nms.default is ops.nms
    with pytest.raises(NotImplementedError, match="torchvision::qnms is not here"):
        library.ops.torchvision.qnms(ad.ones(2, 4))
    with pytest.raises(OSError, match="built for PyTorch"):
        library.ops.load_library("/anywhere/site-packages/torchaudio/_C.so")
    monkeypatch.delitem(vars(library.ops), "torchvision")
