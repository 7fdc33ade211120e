"""Transforms: functions with known Jacobian determinant, inverse, domain and codomain.

Modules, in reading order:

- `transform`: The base class of transforms, inverses and compositions.
- `cat_stack`: Transforms of the parts of a tensor, and by the cdf of a distribution.
- `number`: Transforms of single numbers.
- `vector`: Transforms of events: reshaping, vectors to simplices and triangular matrices, and matrices.
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
