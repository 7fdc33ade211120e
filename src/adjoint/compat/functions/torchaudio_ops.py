"""Operators of torchaudio's compiled library, `torch.ops.torchaudio`: recursive filters, alignment, transducer loss.

torchaudio loads them with `torch.ops.load_library` when it is imported. Filters write into the tensor that they are
given for the result; torchaudio defines their gradients itself.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array
from adjoint.functions.creation.creation import from_numpy


def filter_recursively(input_signal_windows: Tensor, a_coeff_flipped: Tensor, padded_output_waveform: Tensor) -> None:
    """Write y[t] = x[t] - Σ a[k] y[t - k] into the padded output, whose first samples are what came before.

    Shapes: input (n, channels, time); coefficients (channels, order), of which the last, of y[t], counts as 1; output
    (n, channels, time + order - 1).
    """
    signal, output = input_signal_windows.detach().numpy(), padded_output_waveform.detach().numpy()
    past_coefficients = a_coeff_flipped.detach().numpy()[:, :-1]
    order = past_coefficients.shape[1]
    for t in range(signal.shape[-1]):
        past = output[:, :, t : t + order]
        output[:, :, t + order] = signal[:, :, t] - (past * past_coefficients).sum(-1)


def overdrive(waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor) -> None:
    """Write half the waveform and 3/4 of the distorted one without its constant part into the output."""
    distorted, output = temp.detach().numpy(), output_waveform.detach().numpy()
    before, level = last_in.detach().numpy().copy(), last_out.detach().numpy().copy()
    decay, dry, wet = (distorted.dtype.type(x) for x in (0.995, 0.5, 0.75))
    plain = waveform.detach().numpy() * dry
    for t in range(distorted.shape[-1]):
        level = distorted[:, t] - before + decay * level
        before = distorted[:, t]
        output[:, t] = plain[:, t] + level * wet


def forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """Return the most probable CTC path through the labels, and the log probabilities.

    Shapes: log_probs (1, time, classes); targets (1, length); the path (1, time).
    Raises: RuntimeError for more than one example, or more labels than there is time for.
    """
    scores, labels = log_probs.detach().numpy(), targets.detach().numpy()
    if scores.shape[0] != 1 or labels.shape[0] != 1:
        raise RuntimeError("The batch dimension for log_probs must be 1 at the current version.")
    duration, length = scores.shape[1], labels.shape[1]
    if int(input_lengths.item()) != duration or int(target_lengths.item()) != length:
        raise RuntimeError("forced_align: input_lengths and target_lengths must be the sizes of log_probs and targets")
    repeats = int((labels[0, 1:] == labels[0, :-1]).sum())
    if duration < length + repeats:
        raise RuntimeError(
            f"targets length is too long for CTC. Found log_probs length: {duration}, targets length: {length}, and "
            f"number of repeats: {repeats}"
        )
    states = np.full(2 * length + 1, blank, labels.dtype)
    states[1::2] = labels[0]
    path = _find_best_path(scores[0][:, states], states, blank)
    return from_numpy(states[path][None]), log_probs


def _find_best_path(scores: Array, states: Array, blank: int) -> Array:
    """Return the number of the state at each time; a state follows itself, the one before, or skips a blank."""
    count = len(states)
    can_skip = np.zeros(count, bool)
    can_skip[2:] = (states[2:] != blank) & (states[2:] != states[:-2])
    best = np.full(count, -np.inf, scores.dtype)
    best[:2] = scores[0, :2]
    steps = np.zeros(scores.shape, np.int8)
    for t in range(1, len(scores)):
        one = np.concatenate([[-np.inf], best[:-1]]).astype(scores.dtype)
        two = np.where(can_skip, np.concatenate([[-np.inf, -np.inf], best])[:count], -np.inf).astype(scores.dtype)
        steps[t] = np.where((two > one) & (two > best), 2, np.where((one > best) & (one > two), 1, 0))
        best = np.maximum(np.maximum(best, one), two) + scores[t]
    state = count - 1 if count == 1 or best[-1] > best[-2] else count - 2
    path = np.empty(len(scores), np.int64)
    for t in reversed(range(len(scores))):
        path[t] = state
        state -= steps[t, state]
    return path


def rnnt_loss_forward(
    logits: Tensor,
    targets: Tensor,
    logit_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    clamp: float,
    fused_log_softmax: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return the loss of a recurrent transducer for each example, and its gradient.

    Shapes: logits (n, time, length + 1, classes); targets (n, length); the loss (n,).
    Source: Graves, Sequence Transduction with Recurrent Neural Networks (2012), section 2.4.
    """
    given = logits.detach().numpy()
    values = given.astype(np.float64)
    peak = values.max(-1, keepdims=True)
    normalizer = peak + np.log(np.exp(values - peak).sum(-1, keepdims=True)) if fused_log_softmax else 0.0
    log_probs = values - normalizer
    labels = targets.detach().numpy().astype(np.int64)
    ends = (logit_lengths.detach().numpy().astype(np.int64) - 1, target_lengths.detach().numpy().astype(np.int64))
    blanks = log_probs[..., blank]
    emissions = np.take_along_axis(log_probs[:, :, :-1], labels[:, None, :, None], -1)[..., 0]
    forward, backward = _sum_prefixes(blanks, emissions), _sum_suffixes(blanks, emissions, ends)
    total = backward[:, 0, 0]
    grad = np.zeros_like(log_probs)
    after_blank = _shift(backward, 1)
    examples = np.arange(len(given))
    after_blank[(examples, *ends)] = 0.0  # the last blank ends the sequence
    scale = total[:, None, None]
    grad[..., blank] -= np.exp(forward + blanks + after_blank - scale)
    emitted = np.exp(forward[:, :, :-1] + emissions + backward[:, :, 1:] - scale)
    n, t, u = np.indices(emitted.shape)
    np.subtract.at(grad, (n, t, u, labels[n, u]), emitted)
    if fused_log_softmax:
        grad -= np.exp(log_probs) * grad.sum(-1, keepdims=True)
    if clamp > 0:
        grad = grad.clip(-clamp, clamp)
    return from_numpy((-total).astype(given.dtype)), from_numpy(grad.astype(given.dtype))


def _sum_prefixes(blanks: Array, emissions: Array) -> Array:
    """Return the log probability of all ways to each time and label."""
    total = np.full(blanks.shape, -np.inf)
    total[:, 0, 0] = 0.0
    for t in range(blanks.shape[1]):
        for u in range(blanks.shape[2]):
            if t:
                total[:, t, u] = total[:, t - 1, u] + blanks[:, t - 1, u]
            if u:
                total[:, t, u] = np.logaddexp(total[:, t, u], total[:, t, u - 1] + emissions[:, t, u - 1])
    return total


def _sum_suffixes(blanks: Array, emissions: Array, ends: tuple[Array, Array]) -> Array:
    """Return the log probability of all ways from each time and label to the end of each example."""
    total = np.full((blanks.shape[0], blanks.shape[1] + 1, blanks.shape[2] + 1), -np.inf)
    for t in reversed(range(blanks.shape[1])):
        for u in reversed(range(blanks.shape[2])):
            here = total[:, t + 1, u] + blanks[:, t, u]
            if u < emissions.shape[2]:
                here = np.logaddexp(here, total[:, t, u + 1] + emissions[:, t, u])
            total[:, t, u] = np.where((ends[0] == t) & (ends[1] == u), blanks[:, t, u], here)
    return total[:, :-1, :-1]


def _shift(values: Array, steps: int) -> Array:
    """Return the values of later times; -inf after the last."""
    shifted = np.full(values.shape, -np.inf)
    shifted[:, :-steps] = values[:, steps:]
    return shifted


def make_audio_ops() -> SimpleNamespace:
    """Return the operators under the library's names."""
    return SimpleNamespace(
        _lfilter_core_loop=filter_recursively,
        _overdrive_core_loop=overdrive,
        forced_align=forced_align,
        rnnt_loss_forward=rnnt_loss_forward,
    )


def make_library_facts() -> SimpleNamespace:
    """Return the functions by which torchaudio asks what its library was built with."""
    return SimpleNamespace(cuda_version=lambda: None, is_align_available=lambda: True, is_rir_available=lambda: False)
