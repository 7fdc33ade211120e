"""Operators of torchaudio's library, against their definitions."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

import adjoint as ad
from adjoint import library
from adjoint.compat.functions import torchaudio_ops as ops


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_filters_are_recursive(order: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(2, 3, 9)).astype(dtype), rng.normal(size=(3, order)).astype(dtype) / 2
    a[:, -1] = 1
    out = ad.zeros(2, 3, 9 + order - 1, dtype=ad.from_numpy(x).dtype)
    ops.filter_recursively(ad.from_numpy(x), ad.from_numpy(a), out)
    expected = np.zeros((2, 3, 9 + order - 1))
    for n, c, t in product(range(2), range(3), range(9)):
        past = sum(a[c, j] * expected[n, c, t + j] for j in range(order - 1))
        expected[n, c, t + order - 1] = x[n, c, t] - past
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-6)


def test_overdrive_adds_the_distorted_wave_without_its_mean() -> None:
    wave, distorted = ad.tensor([[0.5, -0.5, 0.25]]), ad.tensor([[1.0, 2.0, 4.0]])
    out = ad.zeros(1, 3)
    ops.overdrive(wave, distorted, ad.zeros(1), ad.zeros(1), out)
    levels = [1.0, 1.0 + 0.995, 2.0 + 0.995 * (1.0 + 0.995)]
    np.testing.assert_allclose(out.numpy()[0], [0.25, -0.25, 0.125] + 0.75 * np.array(levels), rtol=1e-6)


def collapse(path: tuple[int, ...]) -> list[int]:
    return [label for i, label in enumerate(path) if label != 0 and (i == 0 or path[i - 1] != label)]


@pytest.mark.parametrize("labels", [[1], [1, 2], [2, 2], [1, 2, 1]])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_path_is_found(labels: list[int], seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(5, 3))
    path, found = ops.forced_align(
        ad.tensor(scores[None]), ad.tensor([labels]), ad.tensor([5]), ad.tensor([len(labels)]), 0
    )
    paths = [each for each in product(range(3), repeat=5) if collapse(each) == labels]
    best = max(paths, key=lambda each: sum(scores[t, label] for t, label in enumerate(each)))
    assert path.tolist() == [list(best)]
    assert found.shape == (1, 5, 3)


def test_alignment_needs_time_for_all_labels() -> None:
    with pytest.raises(RuntimeError, match="targets length: 2, and number of repeats: 1"):
        ops.forced_align(ad.zeros(1, 2, 3), ad.tensor([[1, 1]]), ad.tensor([2]), ad.tensor([2]), 0)
    with pytest.raises(RuntimeError, match="batch dimension"):
        ops.forced_align(ad.zeros(2, 4, 3), ad.tensor([[1], [1]]), ad.tensor([4, 4]), ad.tensor([1, 1]), 0)


def sum_alignments(log_probs: np.ndarray, labels: list[int], duration: int, blank: int) -> float:
    """Return the log probability of the labels: all orders of `duration` blanks and the labels, a blank the last."""
    total = -np.inf
    steps = [True] * (duration - 1) + [False] * len(labels)
    for order in set(permutations(steps)):
        t = u = 0
        score = 0.0
        for is_blank in order:
            score += log_probs[t, u, blank if is_blank else labels[u]]
            t, u = (t + 1, u) if is_blank else (t, u + 1)
        total = np.logaddexp(total, score + log_probs[t, u, blank])
    return float(total)


@pytest.mark.parametrize("fused", [True, False])
def test_transducer_loss_sums_all_alignments(fused: bool) -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(2, 3, 3, 4))
    labels, durations, lengths = np.array([[1, 2], [3, 0]]), np.array([3, 2]), np.array([2, 1])

    def compute(values: np.ndarray, clamp: float = -1.0) -> tuple[np.ndarray, np.ndarray]:
        given = [ad.tensor(x) for x in (values, labels, durations, lengths)]
        loss, grad = ops.rnnt_loss_forward(*given, 0, clamp, fused)
        return loss.numpy(), grad.numpy()

    loss, grad = compute(logits)
    peak = np.log(np.exp(logits).sum(-1, keepdims=True)) if fused else 0.0
    for i in range(2):
        expected = sum_alignments((logits - peak)[i], labels[i, : lengths[i]].tolist(), durations[i], 0)
        assert loss[i] == pytest.approx(-expected)
    for index in np.ndindex(logits.shape):
        moved = [logits.copy(), logits.copy()]
        moved[0][index] += 1e-6
        moved[1][index] -= 1e-6
        slope = (compute(moved[0])[0] - compute(moved[1])[0])[index[0]] / 2e-6
        assert grad[index] == pytest.approx(slope, abs=1e-6)
    assert abs(compute(logits, clamp=0.1)[1]).max() == pytest.approx(0.1)


def test_the_library_is_loaded_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for space in ("_torchaudio", "torchaudio"):
        monkeypatch.setitem(vars(library.ops), space, None)
    library.ops.load_library("/anywhere/site-packages/torchaudio/lib/_torchaudio.abi3.so")
    library.ops.load_library("/anywhere/site-packages/torchaudio/lib/libtorchaudio.abi3.so")
    assert library.ops._torchaudio.cuda_version() is None
    assert library.ops._torchaudio.is_align_available()
    assert library.ops.torchaudio.forced_align is ops.forced_align
    with pytest.raises(OSError, match="built for PyTorch"):
        library.ops.load_library("/anywhere/site-packages/torchaudio/lib/torchaudio_prefixctc.abi3.so")
