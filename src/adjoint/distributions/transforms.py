"""Transforms: functions of known Jacobian, with their inverses, domains and codomains."""

from __future__ import annotations

from adjoint.distributions.joined_transforms import CatTransform, CumulativeDistributionTransform, StackTransform
from adjoint.distributions.number_transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    _clipped_sigmoid,
)
from adjoint.distributions.transform import (
    ComposeTransform,
    Transform,
    _InverseTransform,
    identity_transform,
)
from adjoint.distributions.vector_transforms import (
    CorrCholeskyTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "_InverseTransform", "_clipped_sigmoid", "identity_transform",
]  # fmt: skip
