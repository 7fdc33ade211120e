"""Remedies for passes backward: losses without a graph, graphs that are gone, values overwritten, wrong gradients."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable

from adjoint.core.graph.source_location import definition_site
from adjoint.core.tensor.detach_record import detach_record_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_origin, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, first_tensor, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of

MAX_STEPS_BACK = 12
CUTTING_METHODS = {
    "detach": "it cuts the graph",
    "item": "it gives a Python number",
    "numpy": "it gives an array",
    "tolist": "it gives Python numbers",
    **dict.fromkeys(("argmax", "argmin", "argsort"), "indices have no gradient"),
    **dict.fromkeys(("long", "int"), "integers have no gradient"),
    "round": "its gradient is 0",
    "bool": "truths have no gradient",
}
CUTTING_FUNCTIONS = {"tensor": "it copies values without their graph", "from_numpy": "arrays have no graph"}
INTEGER_TYPE = re.compile(r"\b(?:u?int\d*|long|bool|LongTensor|IntTensor)\)")
INITIALISERS = frozenset({"uniform_", "normal_"})
CUTTING_BLOCKS = ("no_grad", "inference_mode", "set_grad_enabled")


@remedy(r"grad can be implicitly created only for scalar outputs")
def reduce_loss(failure: Failure, match: re.Match[str]) -> str:
    """A loss of several elements."""
    loss, node = next((each for each in failure.tensors()), None), None if failure.line is None else failure.line.node
    if loss is None:
        return "reduce the loss first: .mean() or .sum()"
    if isinstance(node, ast.Call) and text_of(node.func).endswith(".grad") and text_of(node.args[0]) == loss.text:
        told = f"{loss.text}{at(loss)} has {loss.value.numel()} elements"
        inputs = ", ".join(map(text_of, node.args[1:]))
        ways = f"grad_outputs=torch.ones_like({loss.text}), which is the same"
        return f"{told}: {text_of(node.func)}({loss.text}.sum(), {inputs}), or {ways}"
    unreduced = _find_unreduced(failure, loss)
    if unreduced is not None:
        return f"{unreduced}: leave that out, or {loss.text}.mean().backward()"
    where = "" if loss.origin is None else f", from {loss.origin.place()},"
    return f"{loss.text}{where} has {loss.value.numel()} elements: {loss.text}.mean().backward(), or .sum()"


def _find_unreduced(failure: Failure, loss: NamedValue) -> str | None:
    """Return which criterion or call leaves a value for each element, and where that was asked for."""
    made = None if loss.origin is None else loss.origin.value
    for call in ast.walk(made) if made is not None else ():
        if not isinstance(call, ast.Call) or failure.line is None or loss.origin is None:
            continue
        asked = next((each for each in call.keywords if each.arg == "reduction"), None)
        if asked is not None and text_of(asked.value) == "'none'":
            return f"{text_of(call.func)} at {loss.origin.place()} has reduction='none', a loss for each element"
        criterion = evaluate(call.func, failure.frame)
        if is_module(criterion) and getattr(criterion, "reduction", "") == "none":
            own = find_origin(loss.origin.source, call.func, failure.stack)
            named = NamedValue(text_of(call.func), criterion, own)
            return f"{named.text}{at(named)} has reduction='none', a loss for each element"
    return None


@remedy(r"element \d+ of tensors does not require grad and does not have a grad_fn")
def find_cut(failure: Failure, match: re.Match[str]) -> str | None:
    """A loss without a graph: the line that cut it."""
    for describe in (_describe_record, _describe_cut, _describe_copy, _describe_comparison, _describe_frozen_module):
        found = _walk_back(failure, describe)
        if found is not None:
            return found
    return "nothing that it is made of requires grad: requires_grad=True for what is to be learned"


def _walk_back(failure: Failure, describe: Callable[[Failure, SourceFile, ast.AST], str | None]) -> str | None:
    """Return what `describe` finds at the failing line, or at those that made its operands, nearest first."""
    if failure.line is None:
        return None
    pending: list[Origin] = [failure.line]
    seen: set[ast.AST] = set()
    for _ in range(MAX_STEPS_BACK):
        if not pending:
            return None
        origin = pending.pop(0)
        if origin.node in seen:
            continue
        seen.add(origin.node)
        found = describe(failure, origin.source, origin.node)
        if found:
            return found
        for node in ast.walk(origin.value or origin.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                further = find_origin(origin.source, node, failure.stack)
                if further is not None and not isinstance(further.node, ast.For):
                    pending.append(further)
            if isinstance(node, ast.Call):
                pending.extend(_find_function(node, origin.source, failure))
    return None


def _find_function(call: ast.Call, source: SourceFile, failure: Failure) -> list[Origin]:
    """Return the definition of the user's function, or of the forward of the module, that is called."""
    called = evaluate(call.func, failure.frame)
    made = evaluate(call.func.func, failure.frame) if isinstance(call.func, ast.Call) else None
    if isinstance(made, type):  # of Net()(x)
        code = getattr(getattr(made, "forward", None), "__code__", None)
    elif is_module(called):
        code = getattr(type(called).forward, "__code__", None)
    else:
        code = getattr(inspect.unwrap(called), "__code__", None) if inspect.isfunction(called) else None
    if code is None or not user_files[code.co_filename]:
        return []
    home = parse_source(code.co_filename) or source
    return [
        Origin(home, node)
        for node in ast.walk(home.tree)
        if isinstance(node, ast.FunctionDef)
        and code.co_firstlineno in (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
    ]


def _describe_record(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return where a tensor of the line was cut off its history, which a detached tensor knows."""
    for part in ast.walk(node):
        value = evaluate(part, failure.frame) if isinstance(part, (ast.Name, ast.Attribute)) else None
        is_cut = isinstance(value, Tensor) and value.is_floating_point() and not value.requires_grad
        record = detach_record_of(value) if is_cut else None
        if record is not None and isinstance(part, ast.expr):
            name, place = text_of(part), f"{record.what} at {record.site.describe_briefly()}"
            if record.what.startswith("detach"):
                return f"{name} lost its graph by {place}: leave that out of what the loss is made of"
            for written in source.assignments_in(source.scope_of(part)).get(name, ()):
                if isinstance(written, ast.Assign) and f"{name}.grad" in text_of(written.value):
                    made = f"{name} = … at {Origin(source, written).place()} makes a tensor that requires no grad"
                    return f"{made}: change the values of {name} itself, {name} -= … under no_grad()"
            return f"{name} was made under {place}, where ops are not recorded: compute it outside"
    return None


def _describe_cut(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            why = CUTTING_METHODS.get(part.func.attr)
            if why:
                place = Origin(source, part).place()
                return f"{text_of(part.func)}(…) at {place}: {why}; leave it out of what the loss is made of"
            if part.func.attr in ("to", "type") and INTEGER_TYPE.search(text_of(part)):
                place = Origin(source, part).place()
                return (
                    f"{text_of(part)} at {place}: integers have no gradient; leave it out of what the loss is made of"
                )
        if isinstance(part, ast.Attribute) and part.attr == "data":
            return f"{text_of(part)} at {Origin(source, part).place()} has no graph: use the tensor itself"
    around: ast.AST | None = node
    while around is not None:
        if isinstance(around, (ast.With, ast.AsyncWith)):
            for item in around.items:
                text = text_of(item.context_expr)
                if any(block in text for block in CUTTING_BLOCKS):
                    line = Origin(source, around).place()
                    name = first_tensor(failure, "the tensor")
                    return f"with {text} at {line} records no graph: compute {name} outside of it"
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in around.decorator_list:
                if any(block in text_of(decorator) for block in CUTTING_BLOCKS):
                    line = Origin(source, decorator).place()
                    return f"@{text_of(decorator)} of {around.name} at {line} records no graph"
        around = source.parents.get(around)
    return None


def _describe_comparison(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    """Return which comparison made truths of scores, whose result was computed with."""
    value = Origin(source, node).value
    used = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else value
    if not isinstance(used, ast.Compare) or not any(
        isinstance(each, (ast.Lt, ast.Gt, ast.LtE, ast.GtE)) for each in used.ops
    ):
        return None
    told = f"{text_of(used)} at {Origin(source, used).place()} gives truths, which have no gradient"
    return f"{told}: {text_of(used.left)} itself in the loss, with a loss of scores or sigmoid"


def _describe_copy(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.args:
            is_own = failure.line is not None and part is failure.line.node  # whose input has no graph
            if (
                part.func.attr == "grad"
                and not is_own
                and not any(keyword.arg == "create_graph" for keyword in part.keywords)
            ):
                place = Origin(source, part).place()
                return f"create_graph=True in {text_of(part.func)}(…) at {place}: without, gradients have no graph"
            why = CUTTING_FUNCTIONS.get(part.func.attr)
            if why and not any(
                keyword.arg == "requires_grad" and getattr(keyword.value, "value", True) is not False
                for keyword in part.keywords
            ):
                place = Origin(source, part).place()
                if isinstance(part.args[0], (ast.List, ast.Tuple, ast.ListComp)):
                    return f"{text_of(part.func)}(…) at {place}: {why}; torch.stack({text_of(part.args[0])}) keeps it"
                given = evaluate(part.args[0], failure.frame)
                if isinstance(given, (list, tuple)) and given and all(isinstance(each, Tensor) for each in given):
                    return f"{text_of(part)} at {place}: {why}; torch.stack({text_of(part.args[0])}) keeps it"
                return f"{text_of(part.func)}(…) at {place}: {why}; compute with the tensor itself"
    return None


def _describe_frozen_module(failure: Failure, source: SourceFile, node: ast.AST) -> str | None:
    for part in ast.walk(node):
        value = evaluate(part, failure.frame) if isinstance(part, (ast.Name, ast.Attribute)) else None
        held = getattr(value, "parameters", None)
        if callable(held) and "_modules" in getattr(value, "__dict__", ()):
            parameters = list(held())
            if parameters and not any(each.requires_grad for each in parameters):
                for target in source.outside_assignments.get("requires_grad", ()):
                    owner = evaluate(target.value, failure.frame)
                    if is_module(owner) and vars(owner).get("requires_grad") is True:
                        place = Origin(source, target).place()
                        told = (
                            f"{text_of(target)} at {place} sets an attribute of the module, and none of its parameters"
                        )
                        return f"{told}: {text_of(target.value)}.requires_grad_(True)"
                where = _find_freezing(source)
                return f"all parameters of {text_of(part)} are frozen{where}: leave those that are to be trained"
    return None


def _find_freezing(source: SourceFile) -> str:
    """Return the line that sets `requires_grad` to False."""
    for node in ast.walk(source.tree):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "func", None)
        given = node.args if isinstance(node, ast.Call) else []
        value = node.value if isinstance(node, ast.Assign) else next(iter(given), None)
        name = getattr(target, "attr", "")
        if name.rstrip("_") == "requires_grad" and isinstance(value, ast.Constant) and value.value is False:
            return f" by {Origin(source, node).describe()}"
    return ""


@remedy(r"a leaf Variable that requires grad is being used in an in-place operation")
def update_without_recording(failure: Failure, match: re.Match[str]) -> str:
    """A parameter that is changed while the graph records."""
    node = None if failure.line is None else failure.line.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in INITIALISERS:
        target, arguments = text_of(node.func.value), "".join(f", {text_of(each)}" for each in node.args)
        return f"nn.init.{node.func.attr}({target}{arguments}), which records nothing"
    return "with torch.no_grad(): around it, where it is an update; else make a new tensor"


@remedy(r"is a view and is being modified inplace|view of a leaf|views? to be modified inplace")
def write_no_view(failure: Failure, match: re.Match[str]) -> str | None:
    """A write into one of several views, or into a view of a leaf."""
    node = None if failure.line is None else failure.line.node
    if isinstance(node, ast.AugAssign) and "leaf" not in match[0]:
        target = text_of(node.target)
        new = text_of(ast.BinOp(node.target, node.op, node.value))
        told = f"{target}{at(failure.find_operand(target))} is one of several views"
        return f"{told}: {target} = {new} makes a new tensor"
    if "leaf" in match[0] or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    target, name = text_of(node.func.value), node.func.attr
    if not name.endswith("_"):
        return None
    arguments = ", ".join(map(text_of, (*node.args, *node.keywords)))
    own = next((each for each in failure.tensors() if each.text == target), None)
    return f"{target}{at(own)} is one of several views: {target} = {target}.{name[:-1]}({arguments}) makes a new tensor"


@remedy(r"Can't call numpy\(\) on Tensor that requires grad")
def detach_first(failure: Failure, match: re.Match[str]) -> str:
    """An array of a tensor with a graph."""
    x = next((each for each in failure.operands if isinstance(each.value, (list, tuple))), None)
    if x is not None and not failure.tensors():
        return f"{x.text} holds tensors with graphs: .item() of each where it is kept{at(x)}"
    node = None if failure.line is None else failure.line.node
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_method:
        return f"{bracket(node.func.value)}.detach().numpy()"
    given = argument_node(failure, 0)
    x = next((each for each in failure.tensors() if each.value.requires_grad), None)
    if given is not None and x is not None and x.text == text_of(given) and isinstance(node, ast.Call):
        return f"{x.text}{at(x)} has a graph: {text_of(node.func)}({x.text}.detach())"
    return f"{first_tensor(failure, 'the tensor') if x is None else x.text}.detach().numpy()"


@remedy(r"One of the differentiated Tensors does not require grad")
def require_input_grad(failure: Failure, match: re.Match[str]) -> str | None:
    """A derivative with respect to a tensor that asks for none."""
    x = next((each for each in failure.tensors()[::-1] if not each.value.requires_grad), None)
    return None if x is None else f"{x.text}{at(x)}: {x.text}.requires_grad_() before it is used"


@remedy(r"Tensor at index (\d+) appears to not have been used in the graph")
def find_unused_input(failure: Failure, match: re.Match[str]) -> str | None:
    """A tensor that the result does not depend on."""
    if failure.line is None or not isinstance(failure.line.node, ast.Call) or len(failure.line.node.args) < 2:
        return None
    given = failure.line.node.args[1]
    elements = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
    if int(match[1]) >= len(elements):
        return None
    name = text_of(elements[int(match[1])])
    own = failure.find_operand(name)
    if own is not None and own.source is not None and own.source.value is not MISSING and own.text != own.source.text:
        whole, part = own.source.text, None if own.origin is None else own.origin.value
        told = f"{name}{at(own)} is made of {whole}, and {text_of(failure.line.node.args[0])} of {whole} itself"
        index = "" if part is None else f"; {text_of(part).replace(whole, 'its result', 1)} is that of the part"
        return f"{told}: the gradient of {whole}{index}, or compute with {name} before"
    cut = _walk_back(failure, _describe_cut)
    if cut is not None:
        return cut
    return f"{name} takes no part in {text_of(failure.line.node.args[0])}; allow_unused=True gives None for it"


@remedy(r"[Ff]unction (\w+)Backward returned an (?:incorrect number of gradients|invalid gradient)")
def find_backward(failure: Failure, match: re.Match[str]) -> str | None:
    """A Function whose backward returns other gradients than forward took arguments."""
    kind = evaluate(ast.Name(match[1], ast.Load()), failure.frame)
    code = getattr(getattr(kind, "backward", None), "__code__", None)
    if code is None:
        return None
    forward = getattr(kind.forward, "__code__", None)
    taken = () if forward is None else forward.co_varnames[1 : forward.co_argcount]
    where = definition_site(code).describe_briefly()
    result = find_return_in(code)
    where = where if result is None else result.place()
    return (
        f"{match[1]}.backward, {where}, returns a gradient of its shape for each argument of forward "
        f"({', '.join(taken)}), None for those without"
    )


@remedy(r"hook '.*' has changed the size of value")
def find_hook(failure: Failure, match: re.Match[str]) -> str | None:
    """A hook that returns another shape."""
    code = getattr(failure.locals.get("hook"), "__code__", None)
    where = "the hook" if code is None else f"the hook of {definition_site(code).describe_briefly()}"
    return f"{where} returns a gradient of the shape that it gets, or None to leave it"


@remedy(r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require gradients")
def use_floats(failure: Failure, match: re.Match[str]) -> str:
    """A tensor of integers that is to be learned."""
    return "dtype=torch.float32, or values with a point: integers have no gradient"
