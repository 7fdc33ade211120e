"""A softmax over many classes whose rare ones are grouped, so that most are not computed in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.functions.creation.creation import zeros
from adjoint.functions.shape.join import cat
from adjoint.nn import functional as F
from adjoint.nn.containers.containers import ModuleList, Sequential
from adjoint.nn.layers.linear import Linear
from adjoint.nn.module.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """The log-probability of each target, and the negative mean of all."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """(output (N,), loss) of features (N, in_features) and classes (N,): classes are numbered from frequent to rare.

    `cutoffs` are where each cluster of rarer classes begins; the i-th has in_features / div_value^(i+1) features.
    Raises ValueError for cutoffs that are not ascending numbers below n_classes, RuntimeError for other shapes and for
    classes out of range. Source: Grave et al., 2017.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        if not given:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            given != sorted(set(given))
            or min(given) <= 0
            or max(given) > n_classes - 1
            or any(int(c) != c for c in given)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*given, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, hidden, False, **made), Linear(hidden, size, False, **made))
            )

    def reset_parameters(self) -> None:
        """Draw new values."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster.children():
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        alone = target_.ndim == 0
        if target_.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.ndim != (1 if alone else 2):
            shown = "0D target tensor expects 1D input" if alone else "1D target tensor expects 2D input tensors"
            raise RuntimeError(f"{shown}, but found inputs with sizes {tuple(input_.shape)}.")
        if not alone and input_.shape[0] != target_.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        x = input_.unsqueeze(0) if alone else input_
        target = target_.unsqueeze(0) if alone else target_
        if target.numel() and not bool(((target >= 0) & (target < self.n_classes)).all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        outputs = zeros(target.shape[0], dtype=x.dtype)
        gathered = target.clone()
        bounds = [0, *self.cutoffs]
        for i in range(1, self.n_clusters + 1):
            rows = ((target >= bounds[i]) & (target < bounds[i + 1])).nonzero().squeeze(1)
            if not rows.numel():
                continue
            logs = F.log_softmax(self.tail[i - 1](x.index_select(0, rows)), 1)
            within = (target.index_select(0, rows) - bounds[i]).unsqueeze(1)
            outputs = outputs.index_copy(0, rows, logs.gather(1, within).squeeze(1))
            gathered = gathered.index_fill(0, rows, self.shortlist_size + i - 1)
        head = F.log_softmax(self.head(x), 1)
        outputs = outputs + head.gather(1, gathered.unsqueeze(1)).squeeze(1)
        loss = (-outputs).mean()
        return _ASMoutput(outputs.squeeze(0) if alone else outputs, loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes: (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def _get_full_log_prob(self, x: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            chosen = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(F.log_softmax(cluster(x), 1) + chosen)
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each row (N,)."""
        return self.log_prob(input).argmax(1)
