"""The names under which PyTorch's nodes show what they keep: `grad_fn._saved_self`, `_saved_dim`, …"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.autograd.engine.accumulate_grad import accumulate
from adjoint.autograd.engine.graph_task import UNDEFINED, GraphTask, OutputGrads
from adjoint.autograd.engine.node_call import apply_rules
from adjoint.autograd.saved.saved_tensor import saved_tensor
from adjoint.core.dtype.device import CPU, device
from adjoint.core.dtype.dtype import DTYPES, dtype
from adjoint.core.graph.hooks import HookableNode
from adjoint.core.graph.node import GraphNode, Leaf, Node
from adjoint.core.runtime.mode import ModeScope, mode
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.autograd.saved.saved_tensor import SavedTensor

# An input by its number, the output as -1; several inputs; a parameter by its name; or how to find it out.
SavedSource = int | list[int | None] | str | Callable[[Node], Any]


def input_shape(i: int) -> Callable[[Node], Size]:
    """Return the source of the sizes of input i."""

    def find(node: Node) -> Size:
        if node.shapes is not None:
            return Size(node.shapes[i])
        parent = node.parents[i]
        return Size((saved_tensor(node, i).unpack() if parent is None else parent).shape)

    return find


def sizes_of(*names: str) -> dict[str, SavedSource]:
    """Return the sources of `self_sym_sizes` and the like: shapes of inputs that matrix products show."""
    return {f"{name}_sym_sizes": input_shape(i) for i, name in enumerate(names)}


def _parameter(node: Node, name: str) -> Any:
    return None if node.params is None else node.params.get(name)


def single_axis(name: str) -> Callable[[Node], Any]:
    """Return the source of the single dimension of a reduction that takes a tuple."""
    return lambda node: _parameter(node, name)[0]


def transpose_dim(i: int) -> Callable[[Node], int]:
    """Return the source of the i-th of the two dimensions that a transpose exchanges."""

    def find(node: Node) -> int:
        axes = _parameter(node, "axes")
        moved = [d for d, axis in enumerate(axes) if d != axis]
        return moved[i] if moved else 0

    return find


def slice_bound(i: int) -> Callable[[Node], int]:
    """Return the source of a slice's start (0), stop (1), step (2), or the one dimension that it cuts (3)."""

    def find(node: Node) -> int:
        whole, bounds = input_shape(0)(node), _parameter(node, "bounds")
        d = next((d for d, bound in enumerate(bounds) if bound != (0, whole[d], 1)), 0)
        return d if i == 3 else bounds[d][i]

    return find


CONSTANT_ONE: SavedSource = lambda node: 1  # noqa: E731  PyTorch's alpha and beta, which are folded into other ops here
REDUCTION_NAMES: dict[str, SavedSource] = {"dim": "axes", "keepdim": "keepdims"}
NAMES_BY_OP: dict[str, dict[str, SavedSource]] = {
    "add": {"alpha": CONSTANT_ONE},
    "sub": {"alpha": CONSTANT_ONE},
    "div": {"rounding_mode": lambda node: None},
    "pow": {"self": 0, "exponent": 1, "result": -1},
    "sum": REDUCTION_NAMES,
    "mean": REDUCTION_NAMES | {"self_sym_numel": lambda node: math.prod(input_shape(0)(node))},
    "max": REDUCTION_NAMES | {"self": 0, "result": -1},
    "min": REDUCTION_NAMES | {"self": 0, "result": -1},
    "prod": REDUCTION_NAMES | {"dim": single_axis("axes"), "self": 0},
    "cumsum": {"dim": "axis"},
    "softmax": {"dim": "axis"},
    "log_softmax": {"dim": "axis"},
    "mm": {"self": 0, "mat2": 1} | sizes_of("self", "mat2"),
    "bmm": {"self": 0, "mat2": 1},
    "addmm": sizes_of("self", "mat1", "mat2"),
    "linear": {"mat1": 0, "mat2": 1, "alpha": CONSTANT_ONE, "beta": CONSTANT_ONE} | sizes_of("mat1", "mat2"),
    "permute": {"dims": "axes", "dim0": transpose_dim(0), "dim1": transpose_dim(1)},
    "flip": {"dims": "axes"},
    "expand": {"self_sym_sizes": input_shape(0)},
    "select": {"dim": "axis", "index": "at"},
    "slice": {"start": slice_bound(0), "end": slice_bound(1), "step": slice_bound(2), "dim": slice_bound(3)},
    "gather": {"dim": "axis", "index": 1},
    "where": {"condition": 0},
    "cat": {"dim": "axis"},
    "stack": {"dim": "axis"},
    "clamp_range": {"min": "low", "max": "high"},
    "variance": REDUCTION_NAMES,
    "deviation": REDUCTION_NAMES,
    "mean_nll": {"target": 1, "weight": lambda node: None, "ignore_index": "ignore"},
    "mean_weighted_nll": {"target": 1, "weight": 2, "ignore_index": "ignore"},
    "squared_error": {"target": 1, "reduction": lambda node: 1 + (_parameter(node, "reduction") == "sum")},
    "convolution": {
        "input": 0,
        "weight": 1,
        "bias_sym_sizes_opt": lambda node: Size(node.shapes[2] if node.shapes and len(node.shapes) > 2 else (0,)),
    },
}


def saved_names(node: Node) -> dict[str, SavedSource]:
    """Everything the node shows: by its op's own names, by PyTorch's usual ones, and its parameters."""
    op = node.op
    kept = {name for needs in op.needs for name in needs}
    found: dict[str, SavedSource] = {name: name for name in node.params or ()}
    for i, name in enumerate(op.inputs):
        if name in kept:
            found[name] = i
            if i < 2:
                found["other" if i else "self"] = i
    if "out" in kept:
        found["result"] = found["out"] = -1
    if op.saves_shapes and not (op.variadic and len(op.inputs) == 1):
        found["self_sym_sizes"] = input_shape(0)
    if op.name == "index":
        found["indices"] = [None if slot is None else 1 + slot for slot in _parameter(node, "pattern")]
    return found | NAMES_BY_OP.get(op.name, {})


def read_saved(node: Node, name: str, raw: bool = False) -> Any:
    """Return the value that the node saved under `name`; a `SavedTensor` for it if `raw`.

    Raises: AttributeError for a name that it does not have, RuntimeError for a value that was freed.
    """
    where = saved_names(node).get(name)
    if isinstance(where, int):
        return _read_slot(node, where, raw)
    if isinstance(where, list):
        return tuple(None if place is None and not raw else _read_slot(node, place, raw) for place in where)
    if where is None or raw:
        attribute = f"{'_raw' * raw}_saved_{name}"
        raise AttributeError(
            f"{type(node).__name__!r} object has no attribute {attribute!r}: it saves nothing called {name!r}"
        )
    return where(node) if callable(where) else _parameter(node, where)


def _read_slot(node: Node, place: int | None, raw: bool) -> Tensor | SavedTensor:
    last = len(node.parents)  # the inputs come first, then the output
    found = saved_tensor(node, last if place is None or place < 0 else place)
    return found if raw else found.unpack()


class InputMetadata(NamedTuple):
    """Metadata of one output of a node, whose gradient is an input of its rules."""

    shape: Size
    dtype: dtype
    device: device = CPU


def get_saved_attribute(self: Node, name: str) -> Any:
    """Return the value of an attribute `_saved_…` or `_raw_saved_…`."""
    stem = name.removeprefix("_raw")
    if not stem.startswith("_saved_"):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    return read_saved(self, stem.removeprefix("_saved_"), raw=stem != name)


def list_attributes(self: Node) -> list[str]:
    """Every attribute, those named `_saved_…` among them."""
    return sorted({*object.__dir__(self), *(f"_saved_{name}" for name in saved_names(self))})


def call_as_function(self: Any, *gradients: Tensor | None) -> Any:
    """Return the gradients of the inputs, from those of the outputs; one alone is not in a tuple. Hooks do not run.

    A leaf adds the gradient to that of its tensor. Raises TypeError for another number of gradients.
    """
    wanted = getattr(self, "outputs", 1)
    if len(gradients) != wanted:
        raise TypeError(f"{self.name()}: expected {wanted} arguments, got {len(gradients)} instead")
    for i, g in enumerate(gradients):
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"{self.name()}: expected Tensor or None for argument {i}, got {type(g).__name__}")
    walk = GraphTask([], retain_graph=True, create_graph=mode.recording)
    if type(self) is Leaf:
        if gradients[0] is not None:
            with ModeScope(recording=False):
                accumulate(GraphTask([(self, gradients[0])], retain_graph=True, create_graph=False))
        return None
    given = [None if g is None else walk.unwrap_gradient(g) for g in gradients]
    if all(g is None for g in given):
        return _unwrap_single([None] * len(self.parents))
    pulled = apply_rules(walk, self, OutputGrads(given) if wanted > 1 else given[0], None)
    return _unwrap_single([None if d is UNDEFINED else walk.wrap_gradient(d) for d in pulled])


def _unwrap_single(pulled: list[Tensor | None]) -> Tensor | tuple[Tensor | None, ...] | None:
    return pulled[0] if len(pulled) == 1 else tuple(pulled)


def sequence_number(self: GraphNode | Leaf) -> int:
    """Return the node's place in the order in which nodes were made."""
    return self.sequence_nr


def set_sequence_number(self: GraphNode | Leaf, sequence_nr: int) -> None:
    """Move the node in the order in which a backward pass runs those that are ready: the highest first."""
    self.sequence_nr = sequence_nr


def input_metadata(self: GraphNode | Leaf) -> list[InputMetadata]:
    """Shape and type of each output."""
    if isinstance(specs := getattr(self, "_specs", None), list):
        return [InputMetadata(Size(spec[0]), DTYPES[spec[1]]) for spec in specs if spec is not None]
    shapes = getattr(self, "pieces", None) or [self.shape]
    return [InputMetadata(Size(shape), DTYPES[self.dtype]) for shape in shapes]


def register_hook_dict(self: HookableNode, tensor: Tensor) -> None:
    """Do nothing: the hooks of a tensor are with its node from the start."""


for _name, _attribute in {
    "__call__": call_as_function,
    "_sequence_nr": sequence_number,
    "_set_sequence_nr": set_sequence_number,
    "_input_metadata": property(input_metadata),
    "_register_hook_dict": register_hook_dict,
}.items():
    setattr(HookableNode, _name, _attribute)
for _name, _attribute in {"__getattr__": get_saved_attribute, "__dir__": list_attributes}.items():
    setattr(Node, _name, _attribute)
