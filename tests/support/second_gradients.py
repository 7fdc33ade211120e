"""Second gradients beside PyTorch's: those of the squares of an expression's first gradients."""

from typing import Any

from tests.support.oracle import equal, tensor, torch, weights

import adjoint


def same_second_gradients(expression: str, factor: float = 1.0, **arrays: Any) -> None:
    """Evaluate `expression`, in which `t` is the library and the arrays are its tensors, with both, and compare."""
    equal(*(_second_gradients(library, expression, arrays) for library in (adjoint, torch)), factor=factor)


def _second_gradients(library: Any, expression: str, arrays: dict[str, Any]) -> list[Any]:
    tensors = {name: tensor(library, value) for name, value in arrays.items()}
    out = eval(expression, {"t": library, **tensors})
    leaves = [x for x in tensors.values() if x.requires_grad]
    first = library.autograd.grad(out, leaves, library.tensor(weights(out.shape)), create_graph=True)
    total = sum(g.square().sum() for g in first)
    return list(library.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True))
