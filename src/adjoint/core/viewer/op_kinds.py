"""Kinds of ops, by which the viewer colours them: from the module in which an op is declared, and by name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

KINDS_BY_NAME = {
    "activation": """
        relu sigmoid tanh threshold softmax log_softmax safe_softmax elu celu selu gelu silu mish softplus softsign
        leaky_relu prelu rrelu hardtanh hardsigmoid hardswish hardshrink softshrink tanhshrink logsigmoid glu relu6
        clamp_range
    """,
    "matrix": """
        linear addmm addmv mm bmm mv dot einsum convolution conv_transpose attention baddbmm addbmm bilinear
    """,
    "reduction": "max_pool window_sum logsumexp cumsum norm",
    "loss": """
        mean_nll mean_weighted_nll squared_error cross_entropy huber smooth_l1 nll binary_cross_entropy
    """,
    "normalization": """
        standardize layer_norm batch_norm group_norm rms_norm
    """,
    "movement": "index gather take_along scatter_add index_add cast copy",
}
KIND_OF_NAME = {name: kind for kind, names in KINDS_BY_NAME.items() for name in names.split()}
KINDS_BY_FOLDER = {
    "ops.elementwise": "elementwise",
    "ops.special": "elementwise",
    "ops.movement": "movement",
    "ops.mutation": "movement",
    "ops.indexing": "movement",
    "ops.reduction": "reduction",
    "ops.linalg": "matrix",
    "ops.random": "random",
    "ops.creation": "constant",
    "ops.collectives": "call",
    "ops.nn.normalization": "normalization",
    "ops.nn.pooling": "reduction",
    "ops.nn": "matrix",
    "functions.loss": "loss",
    "functions.linalg": "matrix",
    "functions.nn.dropout": "random",
    "functions.nn": "normalization",
    "functions.reduction": "reduction",
    "functions.shape": "movement",
}


@cache
def kind_of_op(op: Op) -> str:
    """Return the kind of a node that applies `op`: "matrix", "activation", "elementwise", …"""
    kind = KIND_OF_NAME.get(op.name)
    if kind is not None:
        return kind
    home = op.evaluate.__module__.partition(".")[2]
    return next((kind for folder, kind in KINDS_BY_FOLDER.items() if home.startswith(folder)), "elementwise")
