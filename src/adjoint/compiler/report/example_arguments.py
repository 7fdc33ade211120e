"""The arguments of the call for which a program was made, held weakly: with them its step can be called again."""

from __future__ import annotations

from typing import NamedTuple
from weakref import ref

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.runtime import pytree
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import NumpyDtype, Operand

LAST_ONES = "the arguments for which the program was made"
GIVEN_ONES = "the arguments given"
MADE_UP = "random arguments of the same shapes (integers 0): those of the call for which the program was made are gone"


class ExampleTensor(NamedTuple):
    """A tensor that a call was given: where it is while somebody has it, its shape and dtype."""

    tensor: ref[Tensor]
    shape: tuple[int, ...]
    dtype: NumpyDtype
    is_leaf: bool

    def make(self) -> Tensor:
        """Return another tensor of the same kind: floats at random, integers 0."""
        array = np.zeros(self.shape, self.dtype)
        if array.dtype.kind in "fc":
            array[...] = np.random.default_rng(0).standard_normal(self.shape)
        made = wrap(array)
        if self.is_leaf:
            made.requires_grad_()
        return made


class ExampleArguments:
    """The arguments of one call."""

    def __init__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        leaves, self.structure = pytree.flatten((args, kwargs))
        self.leaves: list[object] = [_hold_weakly(leaf) for leaf in leaves]

    def find(self) -> tuple[tuple[Operand, ...], dict[str, Operand], str]:
        """Return positional and keyword arguments, and which they are."""
        known: dict[int, Tensor] = {}
        what = LAST_ONES
        leaves: list[object] = []
        for leaf in self.leaves:
            if isinstance(leaf, ExampleTensor):
                tensor = leaf.tensor()
                if tensor is None:
                    tensor = known.setdefault(id(leaf.tensor), leaf.make())  # one tensor twice has one reference
                    what = MADE_UP
                leaves.append(tensor)
            else:
                leaves.append(leaf)
        args, kwargs = pytree.unflatten(self.structure, iter(leaves))
        return args, kwargs, what


def _hold_weakly(leaf: object) -> object:
    """Return a tensor's facts and a weak reference to it; other leaves select the program, which holds them anyway."""
    if not isinstance(leaf, Tensor):
        return leaf
    return ExampleTensor(ref(leaf), leaf.array.shape, leaf.array.dtype, type(leaf.node) is Leaf)
