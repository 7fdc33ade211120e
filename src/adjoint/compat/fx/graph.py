"""Graph of calls: a function as a list of nodes that can be read, changed and written as code."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from adjoint.compat.fx.codegen import CodeGen, PythonCode, TransformCodeFunc
from adjoint.compat.fx.immutable_collections import Argument, Transform
from adjoint.compat.fx.naming import NodeNames, name_after_target
from adjoint.compat.fx.node import Node, Target, iterate_nodes, map_arg
from adjoint.compat.fx.target_checks import check_argument, check_target, warn_of_missing_target
from adjoint.core.runtime.package_name import display_name
from adjoint.core.runtime.text_table import format_columns

__all__ = ["CodeGen", "Graph", "PythonCode"]


class InsertPoint:
    """Context in which a graph's new nodes have another place."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.graph._insert = self.before


class NodeList:
    """Nodes of a graph in their order; the graph may change while they are iterated."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        return iterate_nodes(self.graph._root)

    def __reversed__(self) -> Iterator[Node]:
        return iterate_nodes(self.graph._root, is_reversed=True)


class Graph:
    """List of nodes which together are a Python function.

    Args:
        owning_module: the GraphModule whose forward it is.
        tracer_cls: the class of the tracer that recorded it.

    Example:
        >>> graph = ad.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_function(ad.sin, (x,)))
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %sin : [num_users=1] = call_function[target=adjoint.sin](args = (%x,), kwargs = {})
            return sin
    """

    def __init__(
        self, owning_module: object = None, tracer_cls: type | None = None, tracer_extras: object = None
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = NodeNames()
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Argument] = {}
        self.owning_module: Argument = owning_module

    @property
    def nodes(self) -> NodeList:
        """Return the nodes in their order."""
        return NodeList(self)

    def output_node(self) -> Node:
        """Return the return statement, which is the last node."""
        node = self._root.prev
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    def find_nodes(self, *, op: str, target: Target = None, sort: bool = True) -> list[Node]:
        """Return the nodes of a kind, with this target if one is given."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Argument = None,
    ) -> Node:
        """Add a node at the insertion point, by default the end, and return it."""
        if args and not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if kwargs and not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        unique = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name, None)
        node = Node(self, unique, op, target, args or (), kwargs or {}, type_expr)
        self._graph_namespace.associate_name_with_obj(unique, node)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr: Argument = None, default_value: Argument = ...) -> Node:
        """Add an input; `...` means that it has no default."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Argument = None) -> Node:
        """Add the reading of an attribute of the owning module."""
        if self.owning_module is not None:
            warn_of_missing_target(self.owning_module, "get_attr", qualified_name)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Argument = None,
    ) -> Node:
        """Add the call of a submodule of the owning module."""
        if self.owning_module is not None:
            warn_of_missing_target(self.owning_module, "call_module", module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Argument = None,
    ) -> Node:
        """Add the call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., object],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Argument = None,
        name: str | None = None,
    ) -> Node:
        """Add the call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Argument = None) -> Node:
        """Add the return statement."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Transform = lambda x: x) -> Node:
        """Add a copy of a node of another graph; `arg_transform` maps the nodes that it uses to ones of this graph."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        made.called_as = node.called_as
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Argument], return_output_node: bool = False) -> Argument:
        """Add copies of all nodes of a graph, and return what is its result here, None without an output.

        `val_map` maps its nodes to those of this graph: what is in it is not copied, and copies join it.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Argument] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls)
        nodes: dict[Node, Argument] = {}
        copied = made.graph_copy(self, nodes, return_output_node=True)
        if memo is not None:
            memo.update({id(old): new for old, new in nodes.items()})
        made._codegen = copy.deepcopy(self._codegen)
        if copied is not None:
            result, old_output = copied
            made.output(result, old_output.type).meta = copy.copy(old_output.meta)
        return made

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node. Raises RuntimeError if another one uses its value."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs(map_arg(to_erase.args, lambda n: None), map_arg(to_erase.kwargs, lambda n: None))

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """Add nodes before `n` from now on, or in a with block; before all others without it."""
        return self.inserting_after(self._root) if n is None else self._insert_by(n, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """Add nodes after `n` from now on, or in a with block; after all others without it."""
        return self.inserting_before(self._root) if n is None else self._insert_by(n, n.append)

    def _insert_by(self, n: Node, insert: Callable[[Node], None]) -> InsertPoint:
        if n.graph is not self:
            raise AssertionError("Node to insert beside is not in graph.")
        return InsertPoint(self, insert)

    def lint(self) -> None:
        """Check that arguments are computed before they are used, names are unique, and targets exist.

        Raises RuntimeError or ValueError.
        """
        names: set[str] = set()
        values: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for value in node.all_input_nodes:
                check_argument(value, node, values)
            values.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            if self.owning_module is not None and node.op in {"get_attr", "call_module"}:
                check_target(self.owning_module, node)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove the nodes that have no users and no effects, and return whether there were any."""
        self.lint()
        is_impure = Node.is_impure if is_impure_node is None else is_impure_node
        dead = 0
        for node in reversed(self.nodes):
            if not node.users and not is_impure(node):
                self.erase_node(node)
                dead += 1
        return dead > 0

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let another writer make the code."""
        self._codegen = codegen

    def process_inputs(self, *args: Argument) -> Argument:
        """Return the values of the inputs for these arguments of the function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Argument) -> Argument:
        """Return the function's result for this output."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> AbstractContextManager[None]:
        """Let `make_transformer(current)` change the lines of code, from now on or in a with block."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def restore() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restore()

    def python_code(self, root_module: str, *, verbose: bool = False, **options: object) -> PythonCode:
        """Return the code; `root_module` is its name of the owning module, and `verbose` adds where nodes are from."""
        names = NodeNames()
        shown = {node: node._repr_fn for node in self.nodes}
        for node in shown:
            node._repr_fn = lambda n: names.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(self.nodes, root_module, names, verbose=verbose)
        finally:
            for node, before in shown.items():
                node._repr_fn = before

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [[str(x) for x in (n.op, n.name, n.target, n.args, n.kwargs)] for n in self.nodes]
        rows.insert(0, ["opcode", "name", "target", "args", "kwargs"])
        rows.insert(1, ["-" * max(map(len, column)) for column in zip(*rows, strict=True)])
        sys.stdout.write("\n".join(format_columns(rows)) + "\n")

    @staticmethod
    def _target_to_str(target: Target) -> str:
        return name_after_target(target)

    def __str__(self) -> str:
        parameters: list[str] = []
        lines = [node.format_node(parameters, [""]) for node in self.nodes]
        head = f"graph({', '.join(parameters)}):"
        return "".join([head, *(f"\n    {line}" for line in lines if line)])


display_name.place(Graph, "fx.graph")
