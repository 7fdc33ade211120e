"""The intermediate representation: a straight list of equations over values.

`str(graph)` prints a graph, and `Graph.parse` reads the text back:

    graph step
      %0: f32[4,3] = argument x
      %1: f32[2,3] = state 0.weight
      %2: f32[3,2] = permute(%1, axes=(1, 0))                                # train.py:12 in step · Sequential.0
      %3: f32[4,2] = mm(%0, %2)                                              # train.py:12 in step · Sequential.0
      %4: f32[4,2] = mul(%3, 0.5)                                            # train.py:13 in step
      return %4

The grammar, in which `…*` repeats, `[…]` is optional and `|` separates choices:

    graph    = "graph" name, newline, (input | equation)*, "return" [value ("," value)*]
    input    = value ":" spec "=" source
    equation = value ":" spec "=" op "(" [operand ("," operand)*] ("," key "=" literal)* ")" ["#" origin]
    value    = "%" number                       inputs and equations are numbered in order
    spec     = type "[" [size ("," size)*] "]"  the type: f32, bf16, i64, u8, c64, bool, …
    source   = "argument" name | "state" [name] | "setting" name | "number" name
             | "gradient of result" number | "constant" [literal]
    operand  = value | literal
    literal  = a number, inf, nan, True, None, 'text', a type such as float32, or a tuple of literals
    origin   = file ":" line "in" function ["·" module] ["·" ("backward" | "again")]

Left out are parameters without a literal (the generator of a draw, the error of a check), and the elements of constants
with more than 16 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np

from adjoint.compiler.ir import graph_text
from adjoint.compiler.ir.graph_text import GraphSyntaxError, format_constant, format_literal
from adjoint.compiler.ir.symbolic_size import SizeRelations, size_value
from adjoint.core.graph.source_location import Site
from adjoint.core.op.op import Op
from adjoint.core.op.spec import Spec, describe
from adjoint.core.random.generator import default_generator
from adjoint.core.runtime.exchange_log import CallLog
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Array, NumpyDtype, Operand, Operands, Params

# Parameters that a graph's text leaves out; those with a default here have it when the text is read.
PARAM_DEFAULTS = {"generator": default_generator, "complaint": "index {} is out of range", "error": IndexError}
UNPRINTED_PARAMS = {"called", *PARAM_DEFAULTS}


class TraceError(RuntimeError):
    """A step did something, while it was being compiled, that only values could decide."""

    runs_eagerly = False  # the step runs eagerly, whether or not `fallback` was asked for
    log: CallLog | None = None  # what has taken place in the call, where it was not to run eagerly


class OverlapError(TraceError):
    """This call is for Python: it writes memory that its tensors share or that is read-only, or fills a cache."""


class EntangledMemoryError(TraceError):
    """A step writes memory that it reads in another form through another tensor: it runs eagerly."""

    runs_eagerly = True


class StorageReadError(TraceError):
    """A step reads memory around the elements of a tensor, which no program is given: it runs eagerly."""

    runs_eagerly = True


class DeferredChangeError(TraceError):
    """A step asks what a call changes that its program makes at the end: it runs eagerly."""

    runs_eagerly = True


class SparseGradientError(TraceError):
    """A step computes a sparse gradient, which no program does: it runs eagerly."""

    runs_eagerly = True


class StaticSizeError(TraceError):
    """A program with symbols would serve one size alone: of these `places`, (argument, dimension) it needs a number."""

    def __init__(self, places: Iterable[tuple[int, int]]) -> None:
        super().__init__("a size decides what only one number can")
        self.places = tuple(places)


class TextReadError(TraceError):
    """A step looks into the text of a number that each call computes: it needs the number itself."""


class UnknownInstructionError(TraceError):
    """A step has an instruction that the tracer does not know: it runs eagerly, on a newer Python."""

    runs_eagerly = True


class UntriedPythonError(TraceError):
    """A step is traced on a Python on which what it reads may go unnoticed: it runs eagerly."""

    runs_eagerly = True


class HandlerError(BaseException):
    """An error that a signal handler raised while a step was traced: it is none of the step's."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class ValueOrigin(NamedTuple):
    """The user's line that an equation comes from, the module that ran, and whether it is that line's gradient.

    `of`, where it is known: the op whose gradient it is. `merged_origins`: where else an equation comes from that
    several share. `checkpoint` numbers the call of `checkpoint` it was in, outermost, from 1; `rematerialized` if it
    is computed once more for the gradient of that.
    """

    site: Site
    module: str
    backward: bool
    of: str = ""
    merged_origins: tuple[ValueOrigin, ...] = ()
    checkpoint: int = 0
    rematerialized: bool = False

    def __str__(self) -> str:
        place = f"{self.site.describe_briefly()} in {self.site.function}"
        place += f" · {self.module}" if self.module else ""
        return place + (" · again" if self.rematerialized else " · backward" if self.backward else "")


class Value:
    """The result of an equation, or, with `op` None, an input of the graph, told apart by `source`.

    It has the shape and type of `spec`. `operands` are the inputs that are values (the others are numbers or None).
    """

    __slots__ = ("__weakref__", "dtype", "inputs", "op", "operands", "origin", "params", "shape", "source")

    def __init__(
        self,
        op: Any,
        inputs: Operands,
        params: Params,
        spec: Spec | Value,
        origin: ValueOrigin | None = None,
        source: Operand = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.operands: tuple[Value, ...] = tuple([i for i in inputs if isinstance(i, Value)])
        self.params = params
        self.shape: tuple[int, ...] = spec.shape
        self.dtype: NumpyDtype = spec.dtype
        self.origin = origin
        self.source = source

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape in the call that is traced, later in the last call."""
        return tuple(map(size_value, self.shape))

    @property
    def count(self) -> int:
        """Number of elements in the call that is traced, where that is not the same in each."""
        return size_value(self.size)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, in the call that is traced."""
        return self.count * int(self.dtype.itemsize)

    def refuse(self, reader: str) -> NoReturn:
        """Raise TraceError: the values are not known while the step is traced."""
        from adjoint.core.graph.source_location import user_site

        raise TraceError(
            f"{reader} reads the value of a tensor, {describe(self)}, which is not known while the step is "
            f"being compiled, at {user_site()}. Return the tensor from the step and read it outside, choose between "
            "values with adjoint.where, or leave this function uncompiled."
        )

    def __repr__(self) -> str:
        return f"<{describe(self)}, symbolic>"


class Argument(NamedTuple):
    """An input that each call passes: the n-th tensor among the arguments.

    `strides`: those, in elements, with which the step was traced, None if row-major, where that decided anything.
    """

    number: int
    name: str
    strides: tuple[int, ...] | str | None = "any"


class StateInput(NamedTuple):
    """An input that outlives the call: the memory of a tensor which the step met.

    `locate` finds the tensor again; where that may be another one then, `expression`, given names for objects, is the
    Python source that finds it. `strides`: as those of an argument.
    """

    locate: Callable[[], Operand]
    name: str
    expression: Callable[[Callable[[object], str]], str] | None = None
    strides: tuple[int, ...] | str | None = "any"


class Setting(NamedTuple):
    """A Python number read anew on each call: `holder[path…]`."""

    holder: Any
    path: tuple[object, ...]
    name: str

    def read(self) -> Any:
        """The number as it is now."""
        value = self.holder
        for key in self.path:
            value = value[key]
        return value


class ScalarInput(NamedTuple):
    """A Python number that the program's own arithmetic finds anew on each call, under `name`."""

    name: str


class IncomingGrad(NamedTuple):
    """The gradient that arrives at the n-th result, where `backward()` is called outside of the step."""

    number: int


class Constant(NamedTuple):
    """An array fixed when the step was traced."""

    array: Array


Source = Argument | StateInput | Setting | ScalarInput | IncomingGrad | Constant


class Graph:
    """Inputs, equations in order of execution, and what they lead to. Passes make new graphs of it."""

    def __init__(self, name: str, sizes: SizeRelations | None = None) -> None:
        self.name = name
        self.sizes = sizes  # those that are known only when the program is called
        self.inputs: list[Value] = []
        self.equations: list[Value] = []
        self.outputs: list[Value] = []

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the sizes that are known only when the program is called."""
        return () if self.sizes is None else tuple(self.sizes.values)

    @classmethod
    def parse(cls, text: str, constants: Mapping[str, Array] | None = None) -> Graph:
        """Return the graph that `text` prints.

        `constants` gives the arrays of constants by name (`"%4"`), for those whose elements the text leaves out: they
        are zeros otherwise. States are of no tensor, and draws take the default generator.

        Raises: GraphSyntaxError, which names the line.
        """
        head, *lines = (line for line in text.splitlines() if line.strip())
        graph, values, ops = cls(head.removeprefix("graph").strip()), dict[str, Value](), graph_text.ops_by_name()
        for line in lines:
            try:
                if line.startswith("  return"):
                    names = line.removeprefix("  return").replace(",", " ").split()
                    graph.outputs = [graph_text.look_up(name, values) for name in names]
                    continue
                graph._read_line(graph_text.read_line(line), values, ops, constants or {})
            except (GraphSyntaxError, SyntaxError) as error:
                raise GraphSyntaxError(f"{error}, in the line {line.strip()!r}") from None
        return graph

    def _read_line(
        self,
        line: graph_text.TextLine,
        values: dict[str, Value],
        ops: dict[str, Op],
        constants: Mapping[str, Array],
    ) -> None:
        """Add the input or the equation of one line of text."""
        if not line.is_call:
            source = _read_source(line.right, line.spec, len(self.inputs))
            values[line.name] = self.input(
                line.spec, Constant(np.asarray(constants[line.name])) if line.name in constants else source
            )
            return
        name, inputs, params = graph_text.read_call(line.right, values)
        if name not in ops:
            raise GraphSyntaxError(f"there is no op {name!r}")
        params |= {key: value for key, value in PARAM_DEFAULTS.items() if key in ops[name].params}
        origin = (
            None if line.origin is None else ValueOrigin(*line.origin[:3], rematerialized=line.origin.rematerialized)
        )
        values[line.name] = self.add(ops[name], inputs, params, line.spec, origin)

    def input(self, spec: Operand, source: Source) -> Value:
        """A new input."""
        value = Value(None, (), {}, Spec(tuple(spec.shape), spec.dtype), source=source)
        self.inputs.append(value)
        return value

    def constant(self, array: object) -> Value:
        """A new constant input, copied so that later writes to the array do not reach it."""
        copy = np.array(array)
        return self.input(copy, Constant(copy))

    def add(self, op: Any, inputs: Operands, params: Params, spec: Spec | Value, origin: ValueOrigin | None) -> Value:
        """Append an equation."""
        value = Value(op, inputs, params, spec, origin)
        self.equations.append(value)
        return value

    def add_like(self, like: Value, rename: Callable[[Value], Value], origin: ValueOrigin | None = None) -> Value:
        """Append the equation `like`, of what `rename` makes of its operands; `origin`: if not its own."""
        inputs = tuple([rename(i) if isinstance(i, Value) else i for i in like.inputs])
        return self.add(like.op, inputs, like.params, like, origin or like.origin)

    def inputs_of_kind(self, kind: type) -> list[Value]:
        """The inputs with this kind of source."""
        return [v for v in self.inputs if isinstance(v.source, kind)]

    def verify(self) -> None:
        """Raise AssertionError unless every equation uses only earlier values and has the spec its op promises."""
        known = set(self.inputs)
        fulfilled: set[object] = set()  # what equations without parameters that are alike have promised
        for value in self.equations:
            for operand in value.operands:
                assert operand in known, f"{self.describe(value)} uses a value before it is made"
            known.add(value)
            facts = [(x.shape, x.dtype) if isinstance(x, Value) else type(x) for x in value.inputs]
            alike = None if value.params else (value.op, value.shape, value.dtype, *facts)
            if alike is None or alike not in fulfilled:
                promised = spec_of(value)
                assert promised == Spec(value.shape, value.dtype), f"{self.describe(value)} should be {promised}"
                fulfilled.add(alike)
        for value in self.outputs:
            assert value in known, "an output is never made"

    def users(self) -> dict[Value, list[Value]]:
        """Return the equations that read each value."""
        users: dict[Value, list[Value]] = {v: [] for v in (*self.inputs, *self.equations)}
        for value in self.equations:
            for operand in dict.fromkeys(value.operands):
                users[operand].append(value)
        return users

    def names(self) -> dict[Value, str]:
        """%0, %1, … in order: inputs first."""
        return {v: f"%{i}" for i, v in enumerate((*self.inputs, *self.equations))}

    def describe(self, value: Value, names: dict[Value, str] | None = None) -> str:
        """One equation as text."""
        names = names or self.names()
        return (
            f"{names.get(value, '%?')}: {describe(value)} = {value.op.name}({', '.join(_format_inputs(value, names))})"
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        names = self.names()
        yield f"graph {self.name}"
        for v in self.inputs:
            yield f"  {names[v]}: {describe(v)} = {_format_source(v.source)}"
        for v in self.equations:
            text = f"  {self.describe(v, names)}"
            yield f"{text:<{graph_text.ORIGIN_COLUMN}}  # {v.origin}" if v.origin else text
        yield f"  return {', '.join(names[v] for v in self.outputs)}"

    def _repr_html_(self) -> str:
        return graph_text.render_lines(repr(self), [line for line in self._lines() if line.startswith("  %")])

    def count_equations(self) -> str:
        """Return how many equations and inputs there are, in words."""
        return f"{pluralize(len(self.equations), 'equation')} of {pluralize(len(self.inputs), 'input')}"

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {self.count_equations()}>"


def _format_inputs(value: Value, names: dict[Value, str]) -> Iterable[str]:
    for i in value.inputs:
        yield names.get(i, "%?") if isinstance(i, Value) else format_literal(i)
    for key, param in value.params.items():
        if key not in UNPRINTED_PARAMS:
            yield f"{key}={format_literal(param)}"


def op_of(function: Any) -> Op:
    """Return the op that a function of `adjoint.ops` applies."""
    op: Op = function.op
    return op


def spec_of(value: Value) -> Spec:
    """Return the spec that its op promises for an equation; a number among the inputs has the operands' type."""
    common = next((v.dtype for v in value.operands if v.dtype.kind != "b"), value.dtype)
    inputs = (x for x in value.inputs if x is not None)
    specs = (Spec(x.shape, x.dtype) if isinstance(x, Value) else Spec((), common) for x in inputs)
    promised: Spec = value.op.spec(*specs, **value.params)
    return promised


def _format_source(source: Source) -> str:
    if isinstance(source, Argument):
        return f"argument {source.name}"
    if isinstance(source, StateInput):
        return f"state {source.name}".rstrip()
    if isinstance(source, Setting):
        return f"setting {source.name}"
    if isinstance(source, ScalarInput):
        return f"number {source.name}"
    if isinstance(source, IncomingGrad):
        return f"gradient of result {source.number}"
    return format_constant(source.array)


def _read_source(text: str, spec: Spec, number: int) -> Source:
    """Return the source of an input, the `number`-th of the graph's, from its text."""
    kind, _, name = text.partition(" ")
    if kind == "argument":
        return Argument(int(name) if name.isdigit() else number, name)
    if kind == "state":
        return StateInput(lambda: None, name)
    if kind == "setting":
        return Setting({name: 0.0}, (name,), name)
    if kind == "number":
        return ScalarInput(name)
    if text.startswith("gradient of result "):
        return IncomingGrad(int(text.rpartition(" ")[2]))
    if kind == "constant":
        elements = graph_text.read_literal(name) if name else 0
        return Constant(np.broadcast_to(np.array(elements, spec.dtype), spec.shape).copy())
    raise GraphSyntaxError(f"there is no input {text!r}")
