"""Remedies for derivatives of functions: inputs and directions of one structure, dual levels, stacks of models."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from adjoint.autograd.function.function import Function
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.callbacks import Callback
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, find_class, find_named_argument, remedy
from adjoint.diagnosis.repairs.expression import bracket
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import text_of


@remedy(r"Expected primals to be a tuple|Expected tangents to be a tuple")
def give_tuples(failure: Failure, match: re.Match[str]) -> str:
    """Arguments of a transform that are not in a tuple."""
    node = failure.node
    if isinstance(node, ast.Call) and len(node.args) == 3:
        texts = [text_of(each) if isinstance(each, ast.Tuple) else f"({text_of(each)},)" for each in node.args[1:]]
        rest = ", ".join([text_of(node.args[0]), *texts, *map(text_of, node.keywords)])
        return f"inputs and tangents are tuples, one of each for each argument: {text_of(node.func)}({rest})"
    return "inputs and tangents are tuples, one of each for each argument: jvp(f, (x,), (v,))"


@remedy(r"Expected primals and tangents to have the same python structure|Expected the tangents .* same argspec")
def match_tangents(failure: Failure, match: re.Match[str]) -> str | None:
    """Directions of another number than the inputs."""
    primals, tangents = argument_node(failure, 1, "primals"), argument_node(failure, 2, "tangents")
    if not isinstance(primals, ast.Tuple) or not isinstance(tangents, ast.Tuple):
        return "tangents of the structure of the primals: torch.ones_like of each"
    texts = [text_of(each) for each in primals.elts]
    more = [*map(text_of, tangents.elts), *(f"torch.zeros_like({each})" for each in texts[len(tangents.elts) :])]
    told = f"{len(texts)} primals and {len(tangents.elts)} tangents"
    whole = ", ".join(more[: len(texts)])
    return f"{told}, a direction for each: tangents=({whole}{',' if len(texts) == 1 else ''}), 0 for what stays"


@remedy(r"same as pytree structure of outputs to the function\. cotangents: (.+), primal output: (.+?)\.?$")
def match_cotangents(failure: Failure, match: re.Match[str]) -> str | None:
    """A cotangent of another structure than the outputs."""
    given, node = argument_node(failure, 0), failure.node
    if given is None or not isinstance(node, ast.Call):
        return None
    count = match[2].count("*")
    if match[2].startswith("(") and match[1] == "*":
        own = ", ".join([text_of(given)] * count)
        return f"the function gives {count} tensors, a cotangent for each: {text_of(node.func)}(({own}))"
    if match[2] == "*" and isinstance(given, ast.Tuple) and given.elts:
        return f"the function gives one tensor: {text_of(node.func)}({text_of(given.elts[0])})"
    return f"cotangents of the structure {match[2]}, as the function returns"


@remedy(r"no level exists, make sure to enter_dual_level|Trying to exit a forward AD level")
def enter_level(failure: Failure, match: re.Match[str]) -> str:
    """A dual tensor outside of its level."""
    node = failure.node
    name = text_of(node.func).rpartition(".")[0] if isinstance(node, ast.Call) else "forward_ad"
    return f"with {name or 'forward_ad'}.dual_level(): around it"


@remedy(r"Nested forward mode AD is not supported")
def use_jvp(failure: Failure, match: re.Match[str]) -> str:
    """A level in a level."""
    return (
        "leave the inner dual_level() out; derivatives of derivatives: torch.func.jvp of a function with torch.func.jvp"
    )


@remedy(r"already has a forward gradient at the same level|forward grad that itself has a forward gradient")
def unpack_first(failure: Failure, match: re.Match[str]) -> str:
    """A direction for a tensor that has one."""
    node = failure.node
    given = argument_node(failure, 0, "tensor")
    if given is None or not isinstance(node, ast.Call):
        return "unpack_dual(x).primal is the tensor without its direction"
    own = failure.find_operand(text_of(given))
    base = text_of(node.func).rpartition(".")[0]
    return f"{text_of(given)}{at(own)} is dual already: {base}.unpack_dual({text_of(given)}).primal is the tensor alone"


@remedy(r"stack_module_state: Expected (at least one model|all models to have the same|all models to be of the same)")
def stack_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """Models that differ, and so make no stack."""
    given = argument_node(failure, 0, "models")
    models = None if given is None else compute(given, failure.frame)
    if given is None:
        return None
    name = text_of(given)
    own = f"{name}{at(failure.find_operand(name))}"
    if not isinstance(models, (list, tuple)) or not models:
        return f"{own} is empty: a list of modules, [Net() for _ in range(5)]"
    if "to have" in match[1]:
        modes = ", ".join("train" if each.training else "eval" for each in models)
        return f"{own} are in the modes {modes}: for model in {name}: model.eval()"
    return f"{own} are of {', '.join(dict.fromkeys(type(each).__name__ for each in models))}: models of one class"


@remedy(r"Expected (\S+) from each model to have the same \.requires_grad")
def freeze_alike(failure: Failure, match: re.Match[str]) -> str | None:
    """Models of which one is frozen in part."""
    given = argument_node(failure, 0, "models")
    models = None if given is None else compute(given, failure.frame)
    models = [evaluate(each, failure.frame) for each in given.elts] if isinstance(given, ast.List) else models
    if not isinstance(models, (list, tuple)) or given is None or not all(map(is_module, models)):
        return None
    frozen = [i for i, each in enumerate(models) if not each.get_parameter(match[1]).requires_grad]
    names = [text_of(each) for each in given.elts] if isinstance(given, ast.List) else []
    own = [names[i] if names else f"{text_of(given)}[{i}]" for i in frozen]
    return f"{match[1]} is frozen in {', '.join(own)} alone: in all of them, or {own[0]}.{match[1]}.requires_grad_()"


@remedy(r"is not an instance of \S*Tensor$")
def convert_values(failure: Failure, match: re.Match[str]) -> str | None:
    """Arrays among the parameters that a module is called with."""
    for each in failure.operands:
        if isinstance(each.value, dict) and any(not isinstance(value, Tensor) for value in each.value.values()):
            kinds = {type(value).__name__ for value in each.value.values() if not isinstance(value, Tensor)}
            told = f"{each.text}{at(each)} holds values of {', '.join(sorted(kinds))}"
            return f"{told}: {{name: torch.as_tensor(x, dtype=torch.float32) for name, x in {each.text}.items()}}"
    return None


@remedy(r"Error\(s\) in reparametrizing for (\w+):\s*Missing key\(s\): ([^.]+)\.\s*$")
def give_all_parameters(failure: Failure, match: re.Match[str]) -> str | None:
    """A module that is called with some of its parameters."""
    module, given = failure.named_module(), argument_node(failure, 1, "parameter_and_buffer_dicts")
    if module is None or given is None:
        return None
    name = text_of(given)
    own = f"{name}{at(failure.find_operand(name))}"
    whole = f"{{**dict({module.text}.named_parameters()), **{name}}}"
    return f"{own} has no {match[2]}: {whole}, or leave strict=True out"


@remedy(
    r"out_dims is not compatible with the structure of `outputs`\. out_dims has structure (.+?) "
    r"but outputs has structure (.+?)\.?$"
)
def fit_out_dims(failure: Failure, match: re.Match[str]) -> str:
    """Dimensions of results of another number than the results."""
    count = match[2].count("*") if match[2].startswith("(") else 0
    wanted = f"out_dims=({', '.join(['0'] * count)})" if count else "out_dims=0"
    given = f"{match[1].count('*')} dimensions" if match[1].startswith("(") else "one dimension"
    told = f"the function gives {count} results" if count else "the function gives one result"
    return f"{told}, and out_dims={given}: {wanted}"


@remedy(r"got no inputs\. Maybe you forgot to add inputs")
def give_examples(failure: Failure, match: re.Match[str]) -> str:
    """A mapped function that is called without examples."""
    node = failure.node
    name = text_of(node.func) if isinstance(node, ast.Call) else "it"
    return f"{name} goes along a dimension of its inputs: {name}(x), with the examples in dimension 0 of x"


@remedy(r"this tensor belongs to a vmap that has ended")
def return_mapped(failure: Failure, match: re.Match[str]) -> str:
    """A tensor that leaves a mapped function by another way than its return."""
    x = next((each for each in failure.tensors()), None)
    name = "it" if x is None else f"{x.text}{at(x)}"
    return f"{name} is of one example of a function that is mapped, which has ended: return it from the function"


@remedy(r"You must implement the (jvp|forward) function for custom|setup_context is not implemented")
def define_method(failure: Failure, match: re.Match[str]) -> str | None:
    """A method that a custom function has not."""
    nodes = [each.value for each in ast.walk(failure.node) if isinstance(each, ast.Attribute)] if failure.node else []
    values = (evaluate(each, failure.frame) for each in nodes)
    kind = next((each for each in values if isinstance(each, type) and issubclass(each, Function)), None)
    where = None if kind is None else find_class(kind)
    name = "the Function" if kind is None else f"{kind.__name__}{'' if where is None else f' at {where}'}"
    signature = {
        "jvp": "def jvp(ctx, *tangents), which returns a tangent for each output; torch.func.vjp takes backward",
        "forward": "def forward(ctx, *inputs), which returns the outputs",
    }.get(match[1] or "", "def setup_context(ctx, inputs, output), which saves what backward reads")
    return f"{name} has no {match[1] or 'setup_context'}: @staticmethod {signature}"


@remedy(
    r"outputs of the user-provided function given to (\w+) must be .* has type <class '(\w+)'>|"
    r"gradcheck expects a function that returns a tensor, or a tuple or list of tensors; output (\d+) is a (\w+)"
)
def return_tensors(failure: Failure, match: re.Match[str]) -> str | None:
    """A function whose derivative is asked for, and that gives no tensor."""
    kind = match[2] or match[4]
    node = failure.node
    for part in node.args if isinstance(node, ast.Call) else ():
        function = evaluate(part, failure.frame)
        code = getattr(function, "__code__", None)
        if isinstance(part, ast.Lambda):
            body = text_of(part.body)
            way = f"list({bracket(part.body)}.values())" if kind == "dict" else "a tensor"
            return (
                f"{text_of(part)} gives a {kind}: lambda {text_of(part.args)}: {way}"
                if kind == "dict"
                else (f"{body} is a {kind}: a tensor, or a tuple of tensors, there")
            )
        if function is MISSING or code is None or not user_files[code.co_filename]:
            continue
        returned = find_return_in(code)
        where = "" if returned is None else f" at {returned.describe()},"
        return f"{text_of(part)}{where} gives a {kind}: a tensor, or a tuple of tensors, there"
    return None


@remedy(r"gradcheck expects at least one input tensor to require gradient")
def require_checked(failure: Failure, match: re.Match[str]) -> str | None:
    """Inputs of a check, none of which has a gradient."""
    given = find_named_argument(failure, "inputs")
    if isinstance(given, ast.Tuple) and given.elts and isinstance(given.elts[0], (ast.List, ast.Dict)):
        inner = given.elts[0]
        parts = inner.elts if isinstance(inner, ast.List) else inner.values
        return f"each checked tensor is an argument of its own: ({', '.join(map(text_of, parts))},) and not in a list"
    x = next((each for each in failure.tensors() if not each.value.requires_grad), None)
    return None if x is None else f"{x.text}{at(x)} requires no gradient: {x.text}.requires_grad_() before it"


@remedy(r"(?:no (?:output|result) of the (?:function|model) requires grad|none of output has requires_grad=True)")
def keep_graph(failure: Failure, match: re.Match[str]) -> str | None:
    """A function whose result has no graph, as detach(), item() or no_grad() leaves it."""
    nodes = [] if failure.node is None else [failure.node]
    nodes += [each.origin.node for each in failure.operands if each.origin is not None]
    calls = [each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call)]
    for part in _written_functions(failure, calls):
        cut = next((name for name in ("detach()", "data", "item()", "numpy()") if f".{name}" in text_of(part)), None)
        if cut is not None:
            return f"{text_of(part)} cuts its graph: leave .{cut} out"
    return "its result has no graph: an input that requires grad, and no detach() nor no_grad() on the way"


def _written_functions(failure: Failure, calls: list[ast.Call]) -> Iterator[ast.AST]:
    """Yield the functions of the user's that calls are given: lambdas, and statements of those with a name."""
    for part in (each for call in calls for each in call.args):
        if isinstance(part, ast.Lambda):
            yield part
        code = getattr(evaluate(part, failure.frame), "__code__", None)
        made = None if code is None or not user_files[code.co_filename] else Callback("", code).definition()
        if made is not None:
            yield from made.node.body if isinstance(made.node, ast.FunctionDef) else [made.node]


@remedy(r"The vector v can only be None if the (?:user-provided function returns|input is)")
def give_vector(failure: Failure, match: re.Match[str]) -> str | None:
    """A product with the derivative of several values, without the vector."""
    node = failure.node
    if not isinstance(node, ast.Call):
        return None
    function, given = argument_node(failure, 0, "func"), argument_node(failure, 1, "inputs")
    if function is None or given is None or isinstance(given, (ast.Tuple, ast.List)):
        return None
    is_of_output = "function returns" in match[0]
    vector = (
        f"torch.ones_like({text_of(function)}({text_of(given)}))"
        if is_of_output
        else f"torch.ones_like({text_of(given)})"
    )
    rest = ", ".join([*map(text_of, node.args[:2]), f"v={vector}", *map(text_of, node.keywords)])
    return f"{text_of(node.func)}({rest}), a weight for each value; torch.autograd.functional.jacobian gives them all"


@remedy(r"Jacobian mismatch for output|Backward is not reentrant")
def draw_before(failure: Failure, match: re.Match[str]) -> str | None:
    """A function whose derivative is compared, and that draws numbers."""
    calls = [each for each in ast.walk(failure.node) if isinstance(each, ast.Call)] if failure.node is not None else []
    for function in _written_functions(failure, calls):
        for node in ast.walk(function):
            name = getattr(node, "attr", getattr(node, "id", ""))
            if re.search(r"dropout|^rand|bernoulli|^r?sample$", name):
                return f"{name} draws other numbers at each call, and so no two agree: leave it out of the function"
    return None
