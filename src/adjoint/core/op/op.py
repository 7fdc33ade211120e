"""An op: a NumPy function with rules attached; and what every call of one does: evaluate, wrap, record."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, FLOATING, default, promote
from adjoint.core.graph.node import Node, Saved, kind_of_node, restored, tick
from adjoint.core.graph.not_implemented import Undifferentiable
from adjoint.core.graph.source_location import user_place
from adjoint.core.op import bfloat16
from adjoint.core.op.eager_kernels import Native, Weight
from adjoint.core.op.op_errors import FAULTS, again
from adjoint.core.op.recorder import make
from adjoint.core.op.signature import parameters_of
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import mode, unrecorded, unusual
from adjoint.core.tensor.external_aliases import apart, exposed
from adjoint.core.tensor.meta import any_absent, without
from adjoint.core.tensor.storage import InferenceLeaf, is_inference
from adjoint.core.tensor.tensor import Tensor, wrap

Rule = Callable[..., Any]
ndarray = np.ndarray
NO_PARAMS: dict[str, Any] = {}
new = object.__new__

# Overflow and division by zero give inf and nan, as IEEE arithmetic has it; NumPy's warnings about them are not for
# users.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"adjoint\.")


class Op:
    """A primitive: how to evaluate it, differentiate it, know its result beforehand, and lower it.

    A gradient rule `d<input>=` takes the output's gradient `g`, then, by name, what it needs kept: an input (`x`), the
    output (`out`), an input's shape (`x_shape`), or a parameter. A rule for a variadic input also gets its position
    `i`. Gradients and kept values come as tensors or as bare arrays: rules use operators and ops, no methods.
    `native`: compiled kernels may take the place of `evaluate` for large operands; how long that would take.
    `holomorphic`: a rule says f'(x) g, of which the walk makes conj(f'(x)) g where numbers are complex; False for an op
    of complex numbers whose rules are their gradients as they stand.
    """

    __slots__ = (
        "_kept", "blocks", "combine", "composite", "differentiable", "effect", "evaluate", "family",
        "holomorphic", "identity", "index", "inputs", "keeps_order", "kept_shapes", "kind", "leading", "linear",
        "name", "native", "needs", "params", "part", "plain", "positions", "promotion", "public", "rules",
        "saves", "scalar", "spec", "unruled", "values", "variadic", "wide",
    )  # fmt: skip

    def __init__(
        self,
        evaluate: Callable[..., Any],
        rules: dict[str, Rule],
        *,
        family: str,
        spec: Callable[..., Spec],
        promotion: str | None = None,
        scalar: Any = None,
        index: Any = None,
        combine: str | None = None,
        identity: Any = None,
        composite: Callable[..., Any] | None = None,
        effect: bool = False,
        linear: bool = False,
        leading: bool = False,
        part: Callable[..., Any] | None = None,
        blocks: Callable[[Any], tuple[Any, ...]] | None = None,
        node: str | Callable[..., str] | None = None,
        native: Weight | None = None,
        holomorphic: bool = True,
        keeps_order: bool = False,
    ) -> None:
        parameters = parameters_of(evaluate)
        self.name = evaluate.__name__.strip("_")
        self.evaluate = evaluate
        self.family = family
        self.inputs, self.params, self.variadic = parameters
        self.spec = spec
        self.promotion = promotion
        self.scalar, self.index, self.combine, self.identity = scalar, index, combine, identity
        self.composite = composite
        self.effect = effect
        self.linear = linear
        self.leading = leading
        self.holomorphic = holomorphic
        self.part = part
        self.blocks = blocks
        self.plain = blocks is None and not self.variadic
        self.public: Callable[..., Any] = lambda *inputs, **params: apply(self, inputs, params)
        self.kind = _kind(self.name, node)
        self.keeps_order = lies = keeps_order or family == "unary"  # as its operand does in memory
        run: Any = lambda *x, **params: apply(self, x, params)  # noqa: E731
        self.native = None if native is None else Native(self.name, run, native, elementwise=lies)
        self.wide: Op | None = None  # for bfloat16: see widening.py
        self._attach(rules)

    def _attach(self, rules: dict[str, Rule]) -> None:
        for given in rules:
            if given[:1] != "d" or given[1:] not in self.inputs:
                raise TypeError(f"op {self.name}: rule {given}= has no input {given[1:]!r}; inputs are {self.inputs}")
        self.rules = tuple(rules.get("d" + name) for name in self.inputs)
        self.differentiable = None not in self.rules
        self.unruled = tuple(i for i, rule in enumerate(self.rules) if rule is None)
        self.needs = tuple(() if rule is None else parameters_of(rule).positional[1:] for rule in self.rules)
        known = {*self.inputs, *self.params, "out", "i", *(f"{name}_shape" for name in self.inputs)}
        for name, needs in zip(self.inputs, self.needs, strict=True):
            if not known.issuperset(needs):
                missing = sorted(set(needs) - known)
                raise TypeError(f"op {self.name}: rule d{name} asks for {missing}, which it does not have")
        self._kept: dict[tuple[bool, ...], tuple[bool, ...] | None] = {}
        self.values = frozenset((*self.inputs, "out"))
        self.saves = not self.values.isdisjoint(name for needs in self.needs for name in needs)
        places = {name: i for i, name in enumerate((*self.inputs, "out"))}
        # positions[i]: where in `saved` rule i finds all it needs; None if it also needs shapes or parameters
        self.positions = tuple(
            None if self.variadic or not places.keys() >= set(needs) else _one_or_all([places[n] for n in needs])
            for needs in self.needs
        )
        self.kept_shapes = any(n.endswith("_shape") for needs in self.needs for n in needs)

    def rule(self, i: int) -> Rule | None:
        """The gradient rule for input `i`, counting the inputs of a variadic op one by one."""
        return self.rules[min(i, len(self.rules) - 1)]

    def kept(self, wanting: tuple[bool, ...]) -> tuple[bool, ...] | None:
        """Which inputs, and last the output, the rules for the inputs that want a gradient need; None if none."""
        found = self._kept.get(wanting, ())
        if found == ():
            last = len(self.rules) - 1
            wanted = {name for i, wants in enumerate(wanting) if wants for name in self.needs[min(i, last)]}
            found = None
            if not wanted.isdisjoint(self.values):
                found = (*(self.inputs[min(i, last)] in wanted for i in range(len(wanting))), "out" in wanted)
            if len(wanting) <= 4:  # those of a variadic op are of any number
                self._kept[wanting] = found
        return found

    def __repr__(self) -> str:
        return self.name


def _kind(name: str, node: str | Callable[..., str] | None) -> Callable[..., type[Node]]:
    """From a node of the op to the class that bears its name."""
    if callable(node):
        return lambda made: kind_of_node(node(made))
    title = node or "".join(part.capitalize() for part in name.split("_")) + "Backward0"
    return lambda made: kind_of_node(title)  # made when one is shown: 110 of them would take 2 ms of the import


def _one_or_all(places: list[int]) -> int | tuple[int, ...]:
    """A single place as it is: the backward walk finds a value at once."""
    return places[0] if len(places) == 1 else tuple(places)


def apply(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
    """The general call: any number of inputs (tensors, arrays, numbers, None), promotion, tracing, recording."""
    if unusual.count or default.narrow:
        return _apply_in_modes(op, inputs, params)
    given, recorded = [], False
    for x in inputs:  # a loop, twice as fast as a comprehension in Python 3.11
        known = isinstance(x, Tensor)
        given.append(x.array if known else x)
        recorded = recorded or (known and x.node is not None)
    arrays = tuple(given)
    operands = arrays if op.promotion is None else _promoted(op, arrays)
    if op.native is None:
        try:
            data = op.evaluate(*operands, **params)  # as `evaluate` does it, which would be one more call
        except FAULTS as error:
            data = again(op, operands, params, error)
        if type(data) is not ndarray:
            data = np.asarray(data)
    else:
        data = compute(op, operands, params)
    out = new(Tensor)
    out.array = data
    out.node = out._grad = out.memory = None
    if recorded:
        _record(op, inputs, arrays, params, out)
    return out


def computed(op: Op, inputs: tuple[Any, ...], params: dict[str, Any], data: Any) -> Tensor:
    """What a call of the op gives in default modes where its result has been found already."""
    out = wrap(data)
    for x in inputs:
        if isinstance(x, Tensor) and x.node is not None:
            arrays = tuple([x.array if isinstance(x, Tensor) else x for x in inputs])
            _record(op, inputs, arrays, params, out)
            break
    return out


def _apply_in_modes(op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Tensor:
    """The same where this thread or another has left the default modes, or where arrays may be bfloat16."""
    modes = mode.__dict__ if unusual.count else None  # this thread's: 13 ns against 33 for one attribute of it
    special = modes is not None and modes["special"]
    if special and mode.duals is not None:
        pushed = mode.duals.call(op, inputs, params)
        if pushed is not None:
            return pushed
    if default.narrow:
        op = bfloat16.in_float32(op, inputs)
    tracer = mode.tracer if special else None
    if tracer is None and unusual.absent and any_absent(inputs):
        return without(_apply_in_modes, op, inputs, params)
    if tracer is not None:
        if op.composite is None:
            data = tracer.emit(op, inputs, params)
        elif (op.family == "fused" or op is op.wide) and mode.recording:
            with unrecorded():
                data = _composed(op, inputs, params, tracer).array
        else:
            return _composed(op, inputs, params, tracer)
        arrays = tracer.symbols(inputs)
    else:
        arrays = tuple([x.array if isinstance(x, Tensor) else x for x in inputs])
        operands = arrays if op.promotion is None else _promoted(op, arrays)
        data = evaluate(op, operands, params) if op.native is None else compute(op, operands, params)
    out = wrap(data)
    if modes is not None and tracer is None and modes["cut"] is not None:
        out._cut = modes["cut"]
        out.memory = modes["cut"].memory
    if modes is None or modes["recording"]:
        _record(op, inputs, arrays, params, out)
    if special and mode.watcher is not None:
        mode.watcher.look(op, inputs, out)
    return out


def _composed(op: Op, inputs: tuple[Any, ...], params: dict[str, Any], tracer: Any) -> Tensor:
    """What a traced op is made of."""
    assert op.composite is not None
    composed: Tensor = op.composite(*inputs, **params)
    if not op.keeps_order and (op.family == "fused" or op.native is not None) and hasattr(tracer, "composed"):
        tracer.composed(composed)
    return composed


def evaluate(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The op's NumPy function on arrays of agreed types: an ndarray. Its errors are told in the user's words."""
    try:
        data = op.evaluate(*operands, **params)
    except FAULTS as error:
        data = again(op, operands, params, error)
    return data if type(data) is ndarray else np.asarray(data)


def compute(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """As `evaluate`, but by a compiled kernel where the op may have one and the operands are large."""
    found = None if op.native is None else op.native.find(operands, params)
    return evaluate(op, operands, params) if found is None else found


def target_dtype(op: Op, operands: tuple[Any, ...]) -> np.dtype[Any] | None:
    """The type to which an op's operands are brought before it is evaluated; None if the op takes them as they are."""
    if op.promotion is None:
        return None
    target = promote(operands)
    if op.promotion == "float" and DTYPES[target].rank < 2:
        return default.floating.numpy
    if op.promotion == "number" and target.kind == "b":
        return np.dtype(np.int64)
    return target


def _promoted(op: Op, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    target = target_dtype(op, arrays)
    return tuple([
        (x if x.dtype == target else x.astype(target)) if hasattr(x, "dtype") else _typed(x, target) for x in arrays
    ])  # fmt: skip


def _typed(number: Any, target: Any) -> Any:
    """A Python number as an operand: NumPy brings it to the arrays' type, except where it would refuse or widen."""
    return np.asarray(number).astype(target) if target.kind in "iub" else number


def _record(
    op: Op, inputs: tuple[Any, ...], arrays: tuple[Any, ...], params: dict[str, Any], out: Tensor
) -> None:
    """Give `out` its node."""
    found = []
    for x in inputs:
        found.append(x.node if isinstance(x, Tensor) else None)  # noqa: PERF401  a comprehension takes twice the time
    nodes = tuple(found)
    if unusual.count and mode.floor >= 0:
        nodes = tuple([None if n is None or n.order < mode.floor else n for n in nodes])
    if not any(nodes):
        return
    mixed = unusual.inferred and not mode.transformed and not all(nodes) and any(is_inference(x) for x in inputs)
    if mixed:
        nodes = tuple(x.memory.leaf if n is None and _is_leaf(x) else n for x, n in zip(inputs, nodes, strict=True))
    data = out.array
    if data.dtype.kind not in FLOATING:
        return
    parents = nodes
    for i in op.unruled:
        if op.variadic or nodes[i] is not None:
            parents = _refusing(op, nodes, arrays)
            break
    saved = None
    if op.saves:
        keeps = op.kept(tuple(map(bool, parents)))
        if keeps is not None:
            if mixed and any(kept and is_inference(x) for kept, x in zip(keeps, inputs, strict=False)):
                raise RuntimeError(NOT_SAVED)
            saved = _kept(keeps, inputs, arrays, data)
    shapes = tuple([getattr(a, "shape", ()) for a in arrays]) if op.kept_shapes else None
    make.note(out, op, parents, params, shapes, saved)
    if saved is not None and unusual.count and mode.packers:
        node: Any = out.node
        node.saved = _packed(node, inputs)


NOT_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `no_grad()` instead of `inference_mode()`."
)


def _refusing(op: Op, nodes: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([
        n if n is None or op.rule(i) is not None else Undifferentiable(op, n, arrays[i]) for i, n in enumerate(nodes)
    ])  # fmt: skip


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Tensor) and type(x.memory) is InferenceLeaf


def bare_node(
    op: Op,
    parents: tuple[Any, ...],
    params: dict[str, Any],
    shapes: tuple[tuple[int, ...], ...] | None,
    like: Any,
    shape: tuple[int, ...] | None = None,
) -> Any:
    """A node of an op whose rules need no values, recorded without evaluating; None if no parent wants a gradient.

    Its output has the type of `like`, and its shape unless one is given.
    """
    if not any(parents):
        return None
    node = Node()  # 49 ns, where `object.__new__(Node)` takes 75
    node.op, node.parents, node.params, node.shapes = op, parents, params, shapes
    node.shape, node.dtype = like.shape if shape is None else shape, like.dtype
    node.code, node.at = user_place(2)
    node.saved = node.hooks = None
    node.order = tick()
    return node


def _kept(keeps: tuple[bool, ...], inputs: tuple[Any, ...], arrays: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    kept = []
    for keep, a, given in zip(keeps, arrays, inputs):  # noqa: B905  the last of `keeps` is for `data`
        if not keep:
            a = None
        elif a is given and type(a) is ndarray:
            a = a.copy()  # the user's, who may write it
        kept.append(a)
    kept.append(data if keeps[-1] else None)
    return tuple([apart(a) for a in kept] if exposed else kept)


def _packed(node: Node, inputs: tuple[Any, ...]) -> Saved:
    """What is kept, handed to the innermost hooks that pack saved values."""
    packer = mode.packers[-1]
    tensors = [*inputs, None]
    return Saved(
        packer.pack(restored(kept, maker) if not isinstance(given, Tensor) else given)
        if type(kept) is ndarray
        else kept
        for kept, given, maker in zip(node.saved, tensors, (*node.parents, None), strict=True)
    )
