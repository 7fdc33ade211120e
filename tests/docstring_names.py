"""The most used public names below `adjoint`: their docstrings must be complete (tests/test_docstring_examples.py)."""

from __future__ import annotations

FUNCTIONS = [
    # made
    "tensor", "zeros", "ones", "full", "arange", "linspace", "eye", "zeros_like", "ones_like", "from_numpy",
    "as_tensor", "rand", "randn", "randint", "randperm", "manual_seed",
    # element by element
    "add", "sub", "mul", "div", "pow", "exp", "log", "sqrt", "abs", "sin", "tanh", "sigmoid", "relu", "softmax",
    "clamp", "where", "maximum",
    # reduced and sorted
    "sum", "mean", "max", "min", "argmax", "any", "all", "std", "var", "norm", "logsumexp", "cumsum", "sort", "topk",
    "unique",
    # shapes
    "reshape", "Tensor.view", "transpose", "permute", "squeeze", "unsqueeze", "flatten", "cat", "stack", "split",
    "chunk", "Tensor.expand", "Tensor.repeat", "flip", "meshgrid",
    # elements
    "gather", "scatter", "index_select", "masked_fill", "nonzero", "tril",
    # matrices
    "matmul", "bmm", "einsum", "linalg.norm", "linalg.solve", "linalg.inv", "linalg.det", "linalg.svd", "linalg.eigh",
    "linalg.qr", "linalg.cholesky",
    # a tensor's own
    "Tensor.backward", "Tensor.detach", "Tensor.item", "Tensor.numpy", "Tensor.to", "Tensor.requires_grad_",
    "Tensor.size", "Tensor.register_hook", "Tensor.contiguous", "clone",
    # gradients
    "autograd.grad", "autograd.backward", "autograd.Function", "autograd.gradcheck", "no_grad", "inference_mode",
    "func.grad", "func.vmap", "func.jacrev", "func.jacfwd", "func.hessian", "func.vjp", "func.jvp",
    "func.functional_call",
    # and others
    "fft.fft", "fft.rfft", "save", "load", "compile", "testing.assert_close",
]  # fmt: skip
MODULES: list[str] = []
