"""An op: a NumPy function with its gradient rules, the shape of its result, and its lowering."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from adjoint.core.op.eager_kernels import CostEstimate, FixedShapes, KernelFunction
from adjoint.core.op.signature import parameters_of
from adjoint.core.op.spec import Spec
from adjoint.core.typing import Function, Operand, Operands, Params

Rule = Callable[..., Operand]
HAS_WIDE_POSITIONS = np.dtype(np.intp) == np.int64  # False in a browser, where NumPy's positions have 32 bits


class Op:
    """A primitive function: its evaluation, gradient rules, shape rule and lowering.

    A gradient rule `d<input>=` takes the output's gradient `g`, then, by name, what it needs kept: an input (`x`), the
    output (`out`), an input's shape (`x_shape`), or a parameter. A rule for a variadic input also gets its position
    `i`. Gradients and kept values come as tensors or as bare arrays: rules use operators and ops, no methods.
    `call`: what applies an op to inputs and parameters, `apply` for all but those that are never called.
    `native`: compiled kernels may take the place of `evaluate` for large operands; how long that would take.
    `raises`: values alone, not shapes, can make `evaluate` raise; or a function of the operands and parameters that
    tells. A compiled step computes it even where nobody reads the result, as eager code does.
    `runs_user_code`: a function above is not the library's.
    `holomorphic`: a rule says f'(x) g, of which the walk makes conj(f'(x)) g where numbers are complex; False for an op
    of complex numbers whose rules are their gradients as they stand.
    """

    __slots__ = (
        "_saved_masks", "where_mask", "combine", "composite", "differentiable", "effect", "evaluate", "family",
        "holomorphic", "identity", "index", "inputs", "preserves_strides", "saves_shapes", "batch_leading", "linear",
        "name", "native", "needs", "node_name", "params", "grad_slice", "fast_backward", "saved_slots", "promotion",
        "public", "raises", "rules", "saves", "scalar", "spec", "inputs_without_rule", "values", "variadic",
        "float32_variant", "runs_user_code", "rule_calls",
    )  # fmt: skip

    def __init__(
        self,
        evaluate: Function,
        rules: dict[str, Rule],
        *,
        call: Callable[[Op, Operands, Params], Operand],
        family: str,
        spec: Callable[..., Spec],
        promotion: str | None = None,
        scalar: str | Function | None = None,
        index: Operand = None,
        combine: str | None = None,
        identity: float | None = None,
        composite: Function | None = None,
        effect: bool = False,
        linear: bool = False,
        batch_leading: bool = False,
        grad_slice: Function | None = None,
        where_mask: Callable[[Operand], Operands] | None = None,
        node: str | Callable[..., str] | None = None,
        native: CostEstimate | FixedShapes | None = None,
        holomorphic: bool = True,
        preserves_strides: bool = False,
        raises: bool | Callable[..., bool] = False,
    ) -> None:
        parameters = parameters_of(evaluate)
        self.name = evaluate.__name__.strip("_")
        functions = [evaluate, spec, composite, *rules.values()]
        self.runs_user_code = not all(f is None or f.__module__.startswith("adjoint.") for f in functions)
        self.evaluate = evaluate if HAS_WIDE_POSITIONS or family == "fused" else with_specified_integers(evaluate, spec)
        self.family = family
        self.inputs, self.params, self.variadic = parameters
        self.spec = spec
        self.promotion = promotion
        self.scalar, self.index, self.combine, self.identity = scalar, index, combine, identity
        self.composite = composite
        self.effect = effect
        self.linear = linear
        self.batch_leading = batch_leading
        self.holomorphic = holomorphic
        self.raises = raises
        self.grad_slice = grad_slice
        self.where_mask = where_mask
        self.fast_backward = where_mask is None and not self.runs_user_code
        self.public: Function = lambda *inputs, **params: call(self, inputs, params)
        self.node_name = _make_node_class(self.name, node)
        self.preserves_strides = lies = preserves_strides or family == "unary"  # as its operand does in memory
        run: Function = lambda *x, **params: call(self, x, params)  # noqa: E731
        self.native = None if native is None else KernelFunction(self.name, run, native, elementwise=lies)
        self.float32_variant: Op | None = None  # for bfloat16: see bfloat16.py
        self._attach_rules(rules)

    def _attach_rules(self, rules: dict[str, Rule]) -> None:
        for given in rules:
            if given[:1] != "d" or given[1:] not in self.inputs:
                raise TypeError(f"op {self.name}: rule {given}= has no input {given[1:]!r}; inputs are {self.inputs}")
        self.rules = tuple(rules.get("d" + name) for name in self.inputs)
        self.differentiable = None not in self.rules
        self.inputs_without_rule = tuple(i for i, rule in enumerate(self.rules) if rule is None)
        self.needs = tuple(() if rule is None else parameters_of(rule).positional[1:] for rule in self.rules)
        known = {*self.inputs, *self.params, "out", "i", *(f"{name}_shape" for name in self.inputs)}
        for name, needs in zip(self.inputs, self.needs, strict=True):
            if not known.issuperset(needs):
                missing = sorted(set(needs) - known)
                raise TypeError(f"op {self.name}: rule d{name} asks for {missing}, which it does not have")
        self._saved_masks: dict[tuple[bool, ...], tuple[bool, ...] | None] = {}
        self.values = frozenset((*self.inputs, "out"))
        self.saves = not self.values.isdisjoint(name for needs in self.needs for name in needs)
        places = {name: i for i, name in enumerate((*self.inputs, "out"))}
        # saved_slots[i]: where in `saved_values` rule i finds all it needs; None if it also needs shapes or parameters
        self.saved_slots = tuple(
            None if self.variadic or not places.keys() >= set(needs) else _unwrap_single([places[n] for n in needs])
            for needs in self.needs
        )
        self.rule_calls: list[Function | None] = [None] * len(self.rules)  # see autograd.engine.saved_values
        self.saves_shapes = any(n.endswith("_shape") for needs in self.needs for n in needs)

    def rule(self, i: int) -> Rule | None:
        """Return the gradient rule of input `i`; the last rule serves all further inputs of a variadic op."""
        return self.rules[min(i, len(self.rules) - 1)]

    def saved_mask(self, wanting: tuple[bool, ...]) -> tuple[bool, ...] | None:
        """Return which inputs, and last the output, the rules of `wanting` inputs need; None if they need none."""
        found = self._saved_masks.get(wanting, ())
        if found == ():
            last = len(self.rules) - 1
            wanted = {name for i, wants in enumerate(wanting) if wants for name in self.needs[min(i, last)]}
            found = None
            if not wanted.isdisjoint(self.values):
                found = (*(self.inputs[min(i, last)] in wanted for i in range(len(wanting))), "out" in wanted)
            if len(wanting) <= 4:  # those of a variadic op are of any number
                self._saved_masks[wanting] = found
        return found

    def __repr__(self) -> str:
        return self.name


def with_specified_integers(evaluate: Function, spec: Callable[..., Spec]) -> Function:
    """`evaluate`, whose positions and counts get the type of the spec where NumPy's have 32 bits."""

    @functools.wraps(evaluate)
    def evaluate_as_specified(*operands: Operand, **params: object) -> Operand:
        result = evaluate(*operands, **params)
        if getattr(result, "dtype", None) != np.int32:
            return result
        # A call may have numbers alone, which a spec does not take; as an array theirs would be NumPy's narrow integer.
        given = [np.asarray(x, np.int64) if isinstance(x, int) else x for x in operands]
        return result.astype(spec(*given, **params).dtype, copy=False)

    return evaluate_as_specified


def op_of(function: Function) -> Op:
    """Return the op that a declared function calls.

    Declarations are typed as plain callables, since mypy finds no other type for a function that its own gradient rule
    names; this function knows that they carry their op.
    """
    return vars(function)["op"]


def _make_node_class(name: str, node: str | Callable[..., str] | None) -> Callable[..., str]:
    """Return a function from a node of the op to the name of its class."""
    if callable(node):
        return node
    title = node or "".join(part.capitalize() for part in name.split("_")) + "Backward0"
    return lambda made: title


def _unwrap_single(places: list[int]) -> int | tuple[int, ...]:
    """Return the only place instead of a tuple of one, which backward reads faster."""
    return places[0] if len(places) == 1 else tuple(places)
