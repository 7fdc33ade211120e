"""Remedies for settings of a module that are true or false: the one with which the call runs when it is the other."""

from __future__ import annotations

import ast
import inspect
import re
import warnings

from adjoint.core.runtime.mode import ModeScope
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate, is_module
from adjoint.diagnosis.remedies.registry import at, remedy
from adjoint.diagnosis.repairs.trial import Trial, running
from adjoint.diagnosis.source_expressions import text_of

FLAGS = ("batch_first", "ceil_mode", "return_indices", "sparse")  # that change what fits, not how well it learns


@remedy(r"")
def turn_flag(failure: Failure, match: re.Match[str]) -> str | None:
    """A layer that reads its input in another order, or gives another kind of result, than its setting says."""
    node = failure.node
    if not isinstance(node, ast.Call) or isinstance(failure.error, (AttributeError, KeyError, NameError)):
        return None
    module, own = evaluate(node.func, failure.frame), failure.module()
    if not is_module(module) or own is None or own.value is not module or type(module).forward is None:
        return None
    names = [name for name in FLAGS if name in inspect.signature(type(module)).parameters or name == "batch_first"]
    for name in names:
        value = getattr(module, name, None)
        if isinstance(value, bool) and _runs_otherwise(failure, node, module, name, not value):
            shapes = ", ".join(f"{x.text} {tuple(x.value.shape)}" for x in failure.tensors())
            order = "(batch, time, features)" if not value else "(time, batch, features)"
            told = f" reads {order}: {shapes}" if name == "batch_first" else f" gets {shapes or 'it'}"
            return f"with {name}={not value}, {own.text}{at(own)}{told}; write {name}={not value} there"
    return None


def _runs_otherwise(failure: Failure, node: ast.Call, module: Operand, name: str, value: bool) -> bool:
    """Return whether a copy of a module takes the arguments of a call when one of its settings is another."""
    trial = Trial(node, failure.frame)
    if not trial.fails_alike(failure.error):
        return False
    try:
        arguments = [trial.run(each) for each in node.args]
        keywords = {each.arg: trial.run(each.value) for each in node.keywords if each.arg is not None}
        changed = trial.copy(module)
    except Exception:  # noqa: BLE001  what an argument may raise
        return False
    for part in changed.modules():
        if isinstance(getattr(part, name, None), bool):
            setattr(part, name, value)
    running.active = True
    try:
        with warnings.catch_warnings(), ModeScope(recording=False):
            warnings.simplefilter("ignore")
            changed(*arguments, **keywords)
    except Exception:  # noqa: BLE001  it is not this setting
        return False
    finally:
        running.active = False
    return text_of(node.func) != ""
