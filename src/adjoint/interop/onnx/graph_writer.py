"""The ONNX graph that an export writes: nodes, constants, and free numbers as nodes that compute them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from adjoint.compiler.ir.interpreter import literal_value, operand_dtype
from adjoint.core.typing import Array, NumpyDtype, Operand
from adjoint.interop.onnx.free_numbers import FreeNumber, Number, Sizes, TracedValue
from adjoint.interop.onnx.modes import OnnxExporterError
from adjoint.interop.onnx.size_relations import Relation, Vector, find_float_relation, find_relation

INT64 = np.dtype(np.int64)
FLOAT64 = np.dtype(np.float64)
MAX_ANCESTOR_LEVELS, MAX_ANCESTORS = 4, 8  # of an equation, whose dimensions its numbers are likely made of
MAX_SHARED_BYTES = 1024  # of constants that are alike and kept once


class OnnxWriter:
    """Nodes and constants in order. `opset` is the version of ONNX's operators; names of values are its handles."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Operand] = []  # onnx.NodeProto
        self.constants: dict[str, Array] = {}
        self.names: dict[tuple[int, ...], str] = {}  # of traced values, by the identities of those in the traces
        self.pending: dict[tuple[int, ...], Array] = {}  # values that are constants, until a node takes them
        self.further_outputs: dict[tuple[int, ...], list[str]] = {}  # of nodes with several, beside the named one
        self.module = ""  # whose call is being translated
        self._taken: set[str] = set()
        self._shared: dict[tuple[object, ...], str] = {}
        self._dimensions: dict[Vector, tuple[str, int]] = {}  # the value and its dimension that has these sizes
        self._sizes: dict[Vector, str] = {}  # the 0-d tensors of sizes that nodes compute

    # Names and values

    def new_name(self, wish: str) -> str:
        """Return `wish`, with a number if it is taken."""
        name, count = wish, 0
        while name in self._taken:
            count += 1
            name = f"{wish}_{count}"
        self._taken.add(name)
        return name

    def define(self, value: TracedValue, name: str) -> None:
        """Take note of the name of a traced value, whose free dimensions nodes can ask for from now on."""
        self.names[tuple(map(id, value.traces))] = name
        for axis, n in enumerate(value.shape):
            if isinstance(n, FreeNumber):
                self._dimensions.setdefault(tuple(map(int, n.values)), (name, axis))

    def node(self, kind: str, *inputs: str, **attributes: Operand) -> str:
        """Append a node; return the name of its output."""
        return self.nodes_outputs(1, kind, *inputs, **attributes)[0]

    def nodes_outputs(self, outputs: int, kind: str, *inputs: str, **attributes: Operand) -> list[str]:
        """Append a node; return the names of its outputs."""
        from onnx import helper

        wish = f"{self.module}/{kind}" if self.module else kind
        names = [self.new_name(f"{wish}_output" if outputs == 1 else f"{wish}_output{i}") for i in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=self.new_name(wish), **given))
        return names

    def chain(self, x: str, *kinds: str) -> str:
        """Append nodes of one input each, one after the other."""
        for kind in kinds:
            x = self.node(kind, x)
        return x

    def constant(self, array: Array, wish: str = "constant") -> str:
        """Return the name of a constant, one for all small ones that are alike."""
        key = (array.dtype, array.shape, array.tobytes()) if array.nbytes <= MAX_SHARED_BYTES else (id(array),)
        if key not in self._shared:
            self._shared[key] = name = self.new_name(wish)
            self.constants[name] = array
        return self._shared[key]

    def name_of(self, value: TracedValue) -> str:
        """Return the name of a traced value; a pending constant gets one."""
        key = tuple(map(id, value.traces))
        if key not in self.names:
            self.names[key] = self.constant(self.pending[key])
        return self.names[key]

    def scalar(self, number: float, dtype: NumpyDtype = INT64) -> str:
        """Return the 0-d constant of a number."""
        return self.constant(np.asarray(number).astype(dtype))

    def operand(self, value: TracedValue, i: int) -> str:
        """Return the name of input `i` of an equation; a number becomes a constant of the type that it enters with."""
        x = value.inputs[i]
        if isinstance(x, TracedValue):
            return self.name_of(x)
        first = value.traces[0]
        if isinstance(x, FreeNumber):
            return self.number(x, operand_dtype(first, i), value)
        return self.number(literal_value(first, i, x), operand_dtype(first, i), value)

    def operands(self, value: TracedValue) -> list[str]:
        """Return the names of all inputs of an equation."""
        return [self.operand(value, i) for i in range(len(value.inputs))]

    def cast(self, x: str, dtype: NumpyDtype) -> str:
        """Convert a value."""
        from onnx import helper

        return self.node("Cast", x, to=helper.np_dtype_to_tensor_dtype(dtype))

    # Numbers

    def number(self, number: Number, dtype: NumpyDtype, owner: TracedValue) -> str:
        """Return a 0-d tensor of a number, which nodes compute if it is free."""
        if not isinstance(number, FreeNumber):
            return self.constant(np.asarray(number).astype(dtype))
        if all(float(v).is_integer() for v in number.values):
            size = self._size(tuple(map(int, number.values)), owner)
            return size if dtype == INT64 else self.cast(size, dtype)
        found = find_float_relation(number.values, self._near_dimensions(owner))
        if found is None:
            raise _no_function(number.values, owner, self._dimensions)
        product = self.cast(self._product(found.dimensions), FLOAT64)
        scaled = self.node("Mul", product, self.scalar(found.scale, FLOAT64))
        argument = self.node("Add", scaled, self.scalar(found.offset, FLOAT64))
        return self.cast(self.chain(argument, *reversed(found.root.split())), dtype)

    def integers(self, numbers: Sizes, owner: TracedValue) -> str:
        """Return a 1-d tensor of int64."""
        if not any(isinstance(n, FreeNumber) for n in numbers):
            return self.constant(np.array(numbers, np.int64).reshape(-1))
        zero = self.constant(np.zeros(1, np.int64))
        parts = [
            self.node("Unsqueeze", self.number(n, INT64, owner), zero)
            if isinstance(n, FreeNumber)
            else self.constant(np.array([n], np.int64))
            for n in numbers
        ]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def _size(self, values: Vector, owner: TracedValue) -> str:
        """Return the 0-d tensor of an integer that has these values in the traces."""
        known = self._sizes.get(values)
        if known is not None:
            return known
        if values in self._dimensions:
            found: Relation | None = Relation((values,), 1, 0, 1)
        else:
            found = find_relation(values, self._near_dimensions(owner))
        if found is None:
            raise _no_function(values, owner, self._dimensions)
        x = self._product(found.dimensions)
        if found.minus is not None:
            x = self.node("Sub", x, self._product((found.minus,)))
        if found.numerator != 1:
            x = self.node("Mul", x, self.scalar(found.numerator))
        if found.offset:
            x = self.node("Add", x, self.scalar(found.offset))
        if found.denominator != 1:
            x = self.node("Div", x, self.scalar(found.denominator))
        self._sizes[values] = x
        return x

    def _near_dimensions(self, owner: TracedValue) -> dict[Vector, None]:
        """Return the known dimensions, those of the values first that the owner was made of, the nearest before all."""
        near: dict[Vector, None] = {}
        level = [x for x in owner.inputs if isinstance(x, TracedValue)]
        for _ in range(MAX_ANCESTOR_LEVELS):
            for x in level:
                vectors = (tuple(map(int, n.values)) for n in x.shape if isinstance(n, FreeNumber))
                near.update(dict.fromkeys(v for v in vectors if v in self._dimensions))
            level = [y for x in level[:MAX_ANCESTORS] for y in x.inputs if isinstance(y, TracedValue)]
        return near | dict.fromkeys(self._dimensions)

    def _product(self, dimensions: Iterable[Vector]) -> str:
        """Return the product of dimensions of earlier values."""
        factors = []
        for values in dimensions:
            if values not in self._sizes:
                name, axis = self._dimensions[values]
                at = self.scalar(axis)
                self._sizes[values] = self.node("Gather", self.node("Shape", name), at, axis=0)
            factors.append(self._sizes[values])
        product = factors[0]
        for factor in factors[1:]:
            product = self.node("Mul", product, factor)
        return product


def _no_function(values: Iterable[float], owner: TracedValue, dimensions: Iterable[Vector]) -> OnnxExporterError:
    known = ", ".join(str(list(v)) for v in list(dimensions)[:4])
    return OnnxExporterError(
        f"torch.onnx.export: {owner.describe()} takes a number that was {list(values)} at the sizes {known} of the "
        "free axes: that is no function of sizes which ONNX could compute. Do not name that axis in dynamic_axes or "
        "dynamic_shapes, or write the number with shapes of tensors"
    )


def are_fixed(numbers: Sequence[Number], expected: Number) -> bool:
    """Return whether all numbers are one number."""
    return all(n == expected for n in numbers)
