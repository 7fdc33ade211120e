"""Calls of losses and of attention, with their arguments: found from the ops that they consist of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import caller_place
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.value_flow import ValueFlow

ATTENTIONS = ("multi_head_attention_forward", "scaled_dot_product_attention")
REDUCED_LOSSES = (
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "gaussian_nll_loss",
    "ctc_loss",
)
# The functions in which an op occurs, the outer ones first; each op is one that they call once or twice.
FUNCTIONS_OF_OP: Mapping[str, tuple[str, ...]] = {
    "log_softmax": ("cross_entropy",),
    "mean_nll": ("nll_loss",),
    "gather": ("nll_loss",),  # of images and sequences
    "squared_error": ("mse_loss",),
    "abs": ("smooth_l1_loss", "huber_loss", "l1_loss"),
    "smooth_l1": ("smooth_l1_loss",),
    "huber": ("huber_loss",),
    **dict.fromkeys(("logit_entropy", "logsigmoid", "log1p"), ("binary_cross_entropy_with_logits",)),
    "entropy": ("binary_cross_entropy",),
    "xlogy": ("kl_div",),
    "mean": REDUCED_LOSSES,
    "sum": REDUCED_LOSSES,
    "attention": ATTENTIONS,
    "softmax": ATTENTIONS,
    "safe_softmax": ATTENTIONS,  # with dropout
}


WRITTEN_ERRORS = {"pow": "mse_loss", "square": "mse_loss", "abs": "l1_loss"}


@dataclass(frozen=True)
class LibraryCall:
    """A call of a loss or of attention that runs, and its arguments by name."""

    name: str
    arguments: Mapping[str, Operand]

    @property
    def place(self) -> Place:
        """The user's line that made the call."""
        return caller_place()

    @property
    def is_attention(self) -> bool:
        """True for a call of attention, and not of a loss."""
        return self.name in ATTENTIONS

    def tensor(self, name: str) -> Tensor | None:
        """Return an argument that is a tensor with values."""
        value = self.arguments.get(name)
        return value if isinstance(value, Tensor) and type(value.array) is np.ndarray else None


def find_running_call(op_name: str) -> LibraryCall | None:
    """Return the call of a loss or of attention to which an op that runs now belongs."""
    names = FUNCTIONS_OF_OP[op_name]
    frame = find_library_call(*names)
    if frame is not None and names is ATTENTIONS:
        frame = find_library_call(names[0]) or frame
    if frame is None or (op_name in ("mean_nll", "gather") and find_library_call("cross_entropy") is not None):
        return None
    return LibraryCall(frame.f_code.co_name, frame.f_locals)


@dataclass(frozen=True)
class WrittenLoss(LibraryCall):
    """An error that a program writes out, `(prediction - target).pow(2).mean()`."""

    line: Place

    @property
    def place(self) -> Place:
        """The line that subtracts both."""
        return self.line


def find_written_losses(flow: ValueFlow, roots: Sequence[Tensor]) -> Iterator[WrittenLoss]:
    """Yield the errors in a sum: powers of the difference of a prediction and of data of the same shape."""
    for term in (term for root in roots for term in flow.terms(root)):
        made = term.made
        below = flow.maker(made.tensors[0]) if made is not None and made.op in WRITTEN_ERRORS else None
        if made is None or below is None or below.op != "sub" or len(below.tensors) != 2:
            continue
        for x, target in (below.tensors, below.tensors[::-1]):
            if x.node is not None and target.node is None and x.shape == target.shape:
                yield WrittenLoss(WRITTEN_ERRORS[made.op], {"input": x, "target": target}, below.place)
