"""Interpreters of graphs: a graph is run node by node, with whatever a subclass does instead."""

from __future__ import annotations

from collections.abc import Iterator

from adjoint.compat.fx.call_capture import capture_calls
from adjoint.compat.fx.graph import Graph
from adjoint.compat.fx.graph_module import GraphModule
from adjoint.compat.fx.immutable_collections import Argument
from adjoint.compat.fx.node import Node, Target, map_aggregate, map_arg
from adjoint.compat.fx.proxy import Proxy
from adjoint.compat.fx.symbolic_trace import Tracer
from adjoint.core.runtime.package_name import display_name
from adjoint.nn.module.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runner of a graph. Subclasses override the method of a kind of node, such as `call_function`.

    Args:
        module: the module that has the graph, and what the graph names.
        garbage_collect_values: whether values are let go after their last use.
        graph: another graph to run.

    Example:
        >>> class Negatives(ad.fx.Interpreter):
        ...     def call_function(self, target, args, kwargs):
        ...         return -super().call_function(target, args, kwargs)
        >>> Negatives(ad.fx.symbolic_trace(lambda x: ad.exp(x))).run(ad.tensor(0.0))
        tensor(-1.)
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = getattr(module, "graph") if graph is None else graph  # noqa: B009
        self.env: dict[Node, Argument] = {}
        self.args_iter: Iterator[Argument] = iter(())
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for user in reversed(self.graph.nodes):
            last = [value for value in user.all_input_nodes if value not in seen]
            self.user_to_last_uses[user] = last if garbage_collect_values else []
            seen.update(last)

    def run(
        self, *args: Argument, initial_env: dict[Node, Argument] | None = None, enable_io_processing: bool = True
    ) -> Argument:
        """Return the result of the graph for these arguments; `initial_env` has the values of nodes that are known."""
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    place = f"\nOriginal traceback:\n{node.stack_trace}" if node.stack_trace else ""
                    error.add_note(f"While executing {node.format_node()}{place}")
                raise
            for value in self.user_to_last_uses[node]:
                del self.env[value]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Argument]) -> Argument:
        """Return `run` of the arguments, and empty their list first. Raises RuntimeError for a wrong number."""
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(args_list) != len(inputs):
            kind = "extra arguments" if len(args_list) > len(inputs) else "missing arguments"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(inputs)} arguments for placeholders but received "
                f"{len(args_list)} ({kind})"
            )
        env = dict(zip(inputs, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    def run_node(self, n: Node) -> Argument:
        """Return the value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return the next argument, or the default. Raises RuntimeError without either."""
        if target.startswith("*"):
            return list(self.args_iter)
        found = next(self.args_iter, self)
        if found is not self:
            return found
        if not args:
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")
        return args[0]

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return the result of a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return the result of a method of the first argument."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return the result of a module."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        """Return the result of the graph."""
        return args[0]

    def fetch_attr(self, target: str) -> Argument:
        """Return what the module has at a path. Raises RuntimeError if there is nothing."""
        value: Argument = self.module
        names = target.split(".")
        for i, name in enumerate(names):
            if not hasattr(value, name):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(names[: i + 1])}")
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
        """Return the values of the arguments of a node."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return arguments with the values of nodes in their place. Raises RuntimeError for a node without one."""

        def load(node: Node) -> Argument:
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose issues")
            return self.env[node]

        return map_arg(args, load)


class Transformer(Interpreter):
    """Interpreter that makes another graph of the values, which are proxies: `transform` returns it as a module."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = Tracer()
        self.tracer.graph, self.tracer.root = self.new_graph, module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Proxy:
        return Proxy(self.new_graph.placeholder(target, default_value=args[0] if args else ...), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> Argument:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the module of the new graph."""
        with capture_calls():
            result = super().run(enable_io_processing=False)
        if result is not None:
            made = map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x)
            old = self.graph.output_node()
            self.new_graph.output(made, old.type).meta.update(old.meta)
        return GraphModule(self.module, self.new_graph)


for _kind in (Interpreter, Transformer):
    display_name.place(_kind, "fx.interpreter")
