"""Transforms: functions of known Jacobian, with their inverses, domains and codomains.

Modules, in reading order:

- `transform`: The transform: a function of known Jacobian, its inverse, and transforms made of others.
- `cat_stack`: Transforms of parts of a tensor, each by its own, and by a distribution's cumulative probability.
- `number`: Transforms of single numbers.
- `vector`: Transforms of events: of their dimensions and shape, of vectors to simplices and triangles, and of
  matrices.
"""

from __future__ import annotations

from adjoint.distributions.transforms.cat_stack import CatTransform, CumulativeDistributionTransform, StackTransform
from adjoint.distributions.transforms.number import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    _clipped_sigmoid,
)
from adjoint.distributions.transforms.transform import (
    ComposeTransform,
    Transform,
    _InverseTransform,
    identity_transform,
)
from adjoint.distributions.transforms.vector import (
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
