"""What a node shows besides its edges: saved values by PyTorch's names, its order, and itself as a function."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.autograd.accumulate import NOTHING, Gradients, Slots
from adjoint.autograd.pull import run_rules
from adjoint.autograd.settle import accumulate
from adjoint.core.device import CPU, device
from adjoint.core.dtype import DTYPES, dtype
from adjoint.core.hooks import Hooked
from adjoint.core.mode import Scope, mode
from adjoint.core.node import Leaf, Node
from adjoint.core.size import Size
from adjoint.core.tensor import Tensor


class InputMetadata(NamedTuple):
    """What a node knows of one of its outputs, whose gradient is an input of its rules."""

    shape: Size
    dtype: dtype
    device: device = CPU


def saved_value(self: Node, name: str) -> Any:
    """`_saved_…` and `_raw_saved_…`."""
    stem = name.removeprefix("_raw")
    if not stem.startswith("_saved_"):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    from adjoint.autograd.saved_names import read_saved

    return read_saved(self, stem.removeprefix("_saved_"), raw=stem != name)


def names_shown(self: Node) -> list[str]:
    """Every attribute, those named `_saved_…` among them."""
    from adjoint.autograd.saved_names import saved_names

    return sorted({*object.__dir__(self), *(f"_saved_{name}" for name in saved_names(self))})


def call(self: Any, *gradients: Tensor | None) -> Any:
    """The gradients of the inputs, from those of the outputs; one alone is not in a tuple. Hooks do not run.

    A leaf adds the gradient to that of its tensor. Raises TypeError for another number of gradients.
    """
    wanted = getattr(self, "outputs", 1)
    if len(gradients) != wanted:
        raise TypeError(f"{self.name()}: expected {wanted} arguments, got {len(gradients)} instead")
    for i, g in enumerate(gradients):
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"{self.name()}: expected Tensor or None for argument {i}, got {type(g).__name__}")
    walk = Gradients([], retain_graph=True, create_graph=mode.recording)
    if type(self) is Leaf:
        if gradients[0] is not None:
            with Scope(recording=False):
                accumulate(Gradients([(self, gradients[0])], retain_graph=True, create_graph=False))
        return None
    given = [None if g is None else walk.to_own(g) for g in gradients]
    if all(g is None for g in given):
        return _alone([None] * len(self.parents))
    pulled = run_rules(walk, self, Slots(given) if wanted > 1 else given[0], None)
    return _alone([None if d is NOTHING else walk.to_tensor(d) for d in pulled])


def _alone(pulled: list[Any]) -> Any:
    return pulled[0] if len(pulled) == 1 else tuple(pulled)


def sequence_number(self: Any) -> int:
    """The node's place in the order in which nodes were made."""
    order: int = self.order
    return order


def set_sequence_number(self: Any, order: int) -> None:
    """Move the node in the order in which a backward pass runs those that are ready: the highest first."""
    self.order = order


def input_metadata(self: Any) -> list[InputMetadata]:
    """Shape and type of each output."""
    if isinstance(specs := getattr(self, "_specs", None), list):
        return [InputMetadata(Size(spec[0]), DTYPES[spec[1]]) for spec in specs if spec is not None]
    shapes = getattr(self, "pieces", None) or [self.shape]
    return [InputMetadata(Size(shape), DTYPES[self.dtype]) for shape in shapes]


def register_hook_dict(self: Any, tensor: Tensor) -> None:
    """Nothing is left to do: the hooks of a tensor are with its node from the start."""


for _name, _attribute in {
    "__call__": call,
    "_sequence_nr": sequence_number,
    "_set_sequence_nr": set_sequence_number,
    "_input_metadata": property(input_metadata),
    "_register_hook_dict": register_hook_dict,
}.items():
    setattr(Hooked, _name, _attribute)
for _name, _attribute in {"__getattr__": saved_value, "__dir__": names_shown}.items():
    setattr(Node, _name, _attribute)
