"""Modules of two inputs: similarity, distance, the bilinear form; and the losses that compare."""

from __future__ import annotations

import math
from functools import partial

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.functions.creation.creation import empty
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.loss.losses import Loss
from adjoint.nn.module.from_function import make_module_class
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["Bilinear", "CosineEmbeddingLoss", "CosineSimilarity", "HingeEmbeddingLoss", "KLDivLoss"]
__all__ += ["MarginRankingLoss", "PairwiseDistance", "SoftMarginLoss", "TripletMarginLoss"]
_comparison_class = partial(make_module_class, module=__name__, operands=2, shown=False)
_loss_class = partial(_comparison_class, kind=Loss)

CosineSimilarity = _comparison_class(F.cosine_similarity, "CosineSimilarity")
PairwiseDistance = _comparison_class(F.pairwise_distance, "PairwiseDistance")
KLDivLoss = _loss_class(F.kl_div, "KLDivLoss")
HingeEmbeddingLoss = _loss_class(F.hinge_embedding_loss, "HingeEmbeddingLoss")
SoftMarginLoss = _loss_class(F.soft_margin_loss, "SoftMarginLoss")
MarginRankingLoss = _loss_class(F.margin_ranking_loss, "MarginRankingLoss", operands=3)
CosineEmbeddingLoss = _loss_class(F.cosine_embedding_loss, "CosineEmbeddingLoss", operands=3)
TripletMarginLoss = _loss_class(F.triplet_margin_loss, "TripletMarginLoss", operands=3)


class Bilinear(Module):
    """Bilinear layer: y[o] = x1ᵀ W[o] x2 + b[o].

    The initial weight and bias are uniform in ±1/√in1_features.

    Args:
        in1_features: size of the last dimension of the first input.
        in2_features: size of the last dimension of the second input.
        out_features: size of the last output dimension.
        bias: True to add a learned bias. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        input1 (…, in1_features), input2 (…, in2_features) -> (…, out_features)

    Raises: ValueError for an `in1_features` below 1.

    Example:
        >>> nn.Bilinear(3, 4, 5)(ad.ones(2, 3), ad.ones(2, 4)).shape
        adjoint.Size([2, 5])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, dtype=dtype, device=device))
        self.register_parameter("bias", Parameter(empty(out_features, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
