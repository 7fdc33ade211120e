"""The workloads that Adjoint is measured by, each written once in plain PyTorch style and once in JAX's."""

from __future__ import annotations

from . import black_scholes, captured, cnn, gpt, hessian, inference, logistic, lstm, mlp, resnet
from .workload import Workload

WORKLOADS: dict[str, Workload] = {
    each.name: each
    for each in (
        mlp.SMALL, mlp.LARGE, cnn.LENET, resnet.RESNET, gpt.NARROW, gpt.WIDE, lstm.LSTM, black_scholes.BLACK_SCHOLES,
        logistic.LOGISTIC, hessian.PRODUCT, hessian.WHOLE, inference.MLP, inference.GPT, captured.CAPTURED,
    )
}  # fmt: skip
# the same at sizes that take no time: for tests
TINY: dict[str, Workload] = {
    each.name: each
    for each in (
        mlp.TINY, cnn.TINY, resnet.TINY, gpt.TINY, lstm.TINY, black_scholes.TINY, logistic.TINY, hessian.TINY_PRODUCT,
        hessian.TINY_WHOLE, inference.TINY_MLP, inference.TINY_GPT, captured.CAPTURED,
    )
}  # fmt: skip


def find_workload(name: str) -> Workload:
    """The workload or load of that name. The loads are imported for themselves alone: a start-up is measured too."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    from .general import LOADS

    return LOADS[name]
