"""Code of a graph, as PyTorch prints it: a `forward` of one line for each node."""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module

from adjoint.compat.fx.immutable_collections import Argument
from adjoint.compat.fx.naming import INPLACE_OPERATORS, OPERATORS, NodeNames, format_attribute, standard_globals
from adjoint.compat.fx.node import Node, type_repr
from adjoint.compat.fx.qualified_names import PACKAGE, PublicName, get_qualified_name, unwrap
from adjoint.compat.stubs.pytree import TreeSpec, tree_leaves, tree_unflatten
from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.tensor import Tensor

__all__ = ["CodeGen", "PythonCode"]

TransformCodeFunc = Callable[[list[str]], list[str]]
_COUNTER = re.compile(r"# COUNTER: (\d+)")
_GENERIC_TYPES = {list: "List", dict: "Dict", set: "Set", frozenset: "FrozenSet", tuple: "Tuple"}
_TYPING_NAMES: dict[object, Argument] = {kind: getattr(typing, name) for kind, name in _GENERIC_TYPES.items()}


@dataclass
class PythonCode:
    """Source of a `forward`, and the values of the global names in it."""

    src: str
    globals: dict[str, Argument]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


class CodeGen:
    """Writer of a graph's code. Subclasses change how it takes arguments and returns results."""

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the first line of the function, for these parameters."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Argument, *, repr_fn: Callable[[Argument], str] = repr) -> str:
        """Return the return statement."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Argument) -> Iterable[Argument]:
        """Return the values of the graph's inputs for these arguments of the function."""
        return args

    def process_outputs(self, outputs: Argument) -> Argument:
        """Return the function's result for this output of the graph."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Argument]]:
        """Return further global names of the code, each with its value."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, names: NodeNames, *, verbose: bool = False
    ) -> PythonCode:
        code = _Body(root_module, names)
        statements = list(nodes)
        last_uses = _find_last_uses(statements)
        for i, node in enumerate(statements):
            if verbose:
                code.describe_origin(node)
            code.lines.append(f"# COUNTER: {i}\n")
            code.write_node(node, self, describe_value(node) if verbose else "")
            code.release(node, last_uses.get(node, []))
        body = code.lines or ["pass\n"]
        for name, value in self.additional_globals():
            code.name_global(name, value)
        wrapping = "\n".join(
            f'{display_name.package}.fx._symbolic_trace.wrap("{name}")' for name in code.wrapped_functions
        )
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        head = self.gen_fn_def(code.parameters, code.return_annotation)
        lines, numbers = _number_lines("".join(body).split("\n"), head.count("\n") + 1)
        text = "\n".join("    " + line for line in "\n".join(lines).lstrip("\n").split("\n"))
        return PythonCode(f"\n{wrapping}\n\n{head}\n{text}", code.globals, numbers, wrapping.count("\n") + 4)


class PyTreeInfo(typing.NamedTuple):
    """Parameters of a function some of which are trees, and the structures of arguments and result."""

    orig_args: list[str]
    in_spec: TreeSpec
    out_spec: TreeSpec | None


class PyTreeCodeGen(CodeGen):
    """Writer of code that takes trees apart whose leaves are the graph's inputs."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Argument) -> Iterable[Argument]:
        return tree_leaves(args)

    def process_outputs(self, outputs: Argument) -> Argument:
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        parameters = list(self.pytree_info.orig_args)
        if parameters[:1] == ["self"]:
            free_vars.insert(0, "self")
        head = super().gen_fn_def(parameters[:], maybe_return_annotation)
        if not free_vars:
            return head
        noted = [each for each in free_vars if ":" in each]
        if noted:
            head += "\n    " + "".join(f"{each}; " for each in noted) + "\n"
        bare = ", ".join(each.split(":")[0].split("#")[0] for each in free_vars)
        return f"{head}\n    {bare}, = fx_pytree.tree_flatten_spec([{', '.join(parameters)}], self._in_spec)"

    def generate_output(self, output_args: Argument, *, repr_fn: Callable[[Argument], str] = repr) -> str:
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"


@dataclass
class _Body:
    """Lines of a function that is being written."""

    root_module: str
    names: NodeNames
    lines: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    globals: dict[str, Argument] = field(default_factory=dict)
    wrapped_functions: dict[str, None] = field(default_factory=dict)
    return_annotation: str = ""
    described: str = ""

    def __post_init__(self) -> None:
        for name, (_, value) in standard_globals().items():
            self.globals[name] = value
            self.names.reserve_name(name, value)

    def name_global(self, hint: str, value: Argument, called_as: PublicName | None = None) -> str:
        """Return the global name of a function or type; those of the package are called by their full name."""
        package = display_name.package
        if is_of_package(value) and value is not self.globals["device"]:
            name = get_qualified_name(value, called_as)
            if _resolve(name) is unwrap(value):
                return name
        name = self.names.create_name(hint, value)
        if self.globals.setdefault(name, value) is not value and self.globals[name] != value:
            raise AssertionError(f"Global name {name} already assigned to different object in {package}")
        return name

    def format_type(self, kind: Argument) -> str:
        """Return an annotation as code, and name what it names."""
        if kind == ():
            return "()"
        name = type_repr(kind)
        if isinstance(kind, types.UnionType) and "|" in name:
            return "|".join(map(self.format_type, typing.get_args(kind)))
        if (origin := getattr(kind, "__origin__", None)) is None:
            return self.name_global(name, kind)
        if type(kind) is not types.GenericAlias:
            origin = _TYPING_NAMES.get(origin, origin)
        parts = ",".join(map(self.format_type, typing.get_args(kind)))
        return self.name_global(type_repr(origin), origin) + (f"[{parts}]" if parts else "")

    def format_value(self, value: Argument) -> str:
        """Return an argument as code."""
        if isinstance(value, Node):
            return repr(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.name_global(get_qualified_name(type(value)), type(value))}{tuple(value)!r}"
        if isinstance(value, enum.Enum):
            return f"{self.name_global(type(value).__name__, type(value))}.{value.name}"
        if isinstance(value, Tensor):
            dtype = str(value.dtype).rpartition(".")[2]
            return f"{display_name.package}.Tensor(size={list(value.shape)}, dtype={dtype})"
        if isinstance(value, (tuple, list)):
            parts = ", ".join(map(self.format_value, value))
            return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.format_value, (value.start, value.stop, value.step)))})"
        return repr(value)

    def format_arguments(self, args: Iterable[Argument], kwargs: dict[str, Argument]) -> str:
        """Return the arguments of a call as code."""
        by_keyword = (f"{key} = {self.format_value(value)}" for key, value in kwargs.items())
        return ", ".join([*map(self.format_value, args), *by_keyword])

    def write_node(self, node: Node, generator: CodeGen, described: str) -> None:
        """Write the statement of a node, without the end of its line."""
        noted = described or ("" if node.type is None else f" : {self.format_type(node.type)}")
        if node.op == "placeholder":
            default = f" = {self.format_value(node.args[0])}" if node.args else ""
            self.parameters.append(f"{node.target}{noted}{default}")
            if (parameter := node.target.replace("*", "")) != repr(node):
                self.lines.append(f"{node!r} = {parameter}\n")
        elif node.op == "output":
            if node.type is not None:
                self.return_annotation = f" -> {self.format_type(node.type)}"
            self.lines.append(generator.generate_output(node.args[0], repr_fn=self.format_value))
        else:
            self.lines.append(self.format_call(node, f"{node!r}{noted}"))

    def format_call(self, node: Node, result: str) -> str:
        """Return the statement that computes the value of a node."""
        if node.op == "get_attr":
            return f"{result} = {format_attribute(self.root_module, node.target)}"
        if node.op == "call_module":
            called = format_attribute(self.root_module, node.target)
            return f"{result} = {called}({self.format_arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            called = format_attribute(self.format_value(node.args[0]), node.target)
            return f"{result} = {called}({self.format_arguments(node.args[1:], node.kwargs)})"
        if getattr(node.target, "__module__", "") == "_operator":
            operands = list(map(self.format_value, node.args))
            if (form := OPERATORS.get(node.target.__name__)) is not None:
                return f"{result} = {form.format(*operands)}"
            if (form := INPLACE_OPERATORS.get(node.target.__name__)) is not None:
                return f"{form.format(*operands)};  {result} = {operands[0]}"
        name = self.name_global(get_qualified_name(node.target, node.called_as), node.target, node.called_as)
        if name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{result} = {format_attribute(self.format_value(node.args[0]), node.args[1])}"
        if node.meta.get("is_wrapped", False):
            self.wrapped_functions.setdefault(name)
        return f"{result} = {name}({self.format_arguments(node.args, node.kwargs)})"

    def release(self, node: Node, values: list[Node]) -> None:
        """End the line of a node: values that it used last, or its own if it has no use, are let go."""
        if node.op == "placeholder":
            return
        released = [*values, node] if not node.users else values
        if node.op == "output" or not released:
            self.lines.append("\n")
        else:
            self.lines.append(f";  {' = '.join([*map(repr, released), 'None'])}\n")

    def describe_origin(self, node: Node) -> None:
        """Write where the following nodes come from, where that changes."""
        if node.op in {"placeholder", "output"}:
            return
        text = "No stacktrace found for following nodes"
        if node.stack_trace:
            places = re.findall(r'^ *File "(.+)", line (\d+), in (.+)\n(.*)$', node.stack_trace, re.MULTILINE)
            if places:
                file, line, function, source = places[-1]
                text = f"File: {file}:{line} in {function}, code: {source.strip()}"
        text = f"\n# {text}\n"
        if text != self.described:
            self.described = text
            self.lines.append(text)


def describe_value(node: Node) -> str:
    """Return type and shape of a node's value as an annotation, where its `meta` has them."""
    value = next((node.meta[key] for key in ("val", "tensor_meta", "example_value") if key in node.meta), None)
    if value is None or not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return ""
    kind = str(value.dtype).rpartition(".")[2]
    letter = {"bfloat16": "bf", "bool": "b"}.get(kind, kind[0])
    bits = "8" if kind == "bool" else "".join(filter(str.isdigit, kind))
    return f': "{letter}{bits}[{", ".join(map(str, value.shape))}]"'


def _find_last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """Return, for each node, the values that no later one uses."""
    known: set[Node] = set()
    uses: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for value in user.all_input_nodes:
            if value not in known:
                known.add(value)
                uses.setdefault(user, []).append(value)
    return uses


def _number_lines(lines: list[str], first: int) -> tuple[list[str], dict[int, int | None]]:
    """Return the lines without the marks of nodes, and which node each belongs to."""
    kept: list[str] = []
    numbers: dict[int, int | None] = {}
    current: int | None = None
    for line in lines:
        if (mark := _COUNTER.search(line)) is not None:
            current = int(mark[1])
        else:
            numbers[len(kept) + first] = current
            kept.append(line)
    return kept, numbers


def is_of_package(value: Argument) -> bool:
    """Return whether a function or type is one of the package."""
    home = getattr(value, "__module__", None)
    return isinstance(home, str) and home.partition(".")[0] in {PACKAGE, display_name.package}


def _resolve(name: str) -> Argument:
    """Return what a dotted name means; None if it means nothing."""
    package, *path = name.split(".")
    value: Argument = import_module(package)
    for attribute in path:
        value = getattr(value, attribute, None)
    return unwrap(value)
