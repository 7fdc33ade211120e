"""Why a function was traced again: what differed from the programs that were there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.compiler.trace.guards import GuardFailure, describe_object
from adjoint.core.runtime import pytree
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Operand

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program
    from adjoint.compiler.trace.events.step_events import Outcome
    from adjoint.compiler.trace.signature import Signature, SignatureKey


class Recompilation(NamedTuple):
    """One trace: of which function, for which signature, and what had changed since those before; nothing at first."""

    name: str
    key: SignatureKey
    changes: list[GuardFailure]

    def __str__(self) -> str:
        if not self.changes:
            return f"{self.name}: first call"
        return f"{self.name}: " + "; ".join(map(str, self.changes))

    def __repr__(self) -> str:
        return f"<{self}>"


def find_changes(
    before: list[Recompilation],
    signature: Signature,
    key: SignatureKey,
    names: list[str],
    given: list[Operand],
    log: list[Outcome],
) -> list[GuardFailure]:
    """Return how this call differs from the programs of its signature, or this signature from the nearest before it.

    `names`: of the positional parameters; `given`: the tensors and numbers among the arguments; `log`: the answers that
    the call has given to what the step asks.
    """
    if signature.entries:
        found = [entry.changes(given, log) for entry in signature.entries]
        return min((changes for changes in found if changes), key=len, default=[])
    others = [_key_changes(old.key, key, names) for old in reversed(before)]
    return min((changes for changes in others if changes), key=len, default=[])


def describe_compilation(trace: Recompilation, programs: Sequence[Program], seconds: float) -> str:
    """Return the line that tells of a trace whose programs are ready: "step: compiled in 0.4 s: 11 kernels".

    Why it was necessary follows, unless it was the first.
    """
    calls = sum(
        group.call and group.equations[0].op.family != "collective" and not program.binding.is_native(group)
        for program in programs
        for group in program.fusion.order
    )
    parts = [pluralize(sum(len(program.kernels) for program in programs), "kernel")]
    parts += [pluralize(calls, "NumPy call")] if calls else []
    parts += [pluralize(len(programs), "program")] if len(programs) > 1 else []
    taken = f"{seconds:.1f} s" if seconds >= 0.1 else f"{1e3 * seconds:.0f} ms"
    reasons = "".join(f"; {change}" for change in trace.changes)
    return f"{trace.name}: compiled in {taken}: {', '.join(parts)}{reasons}"


def _key_changes(old: SignatureKey, new: SignatureKey, names: list[str]) -> list[GuardFailure]:
    if old[0] != new[0]:
        return [GuardFailure("the structure of the arguments", str(old[0]), str(new[0]), None)]
    found = []
    for path, a, b in zip(_argument_paths(new[0], names), old[1], new[1], strict=True):
        if a != b:
            found += _leaf_changes(path, a, b)
    if old[2] != new[2]:
        found.append(GuardFailure("which arguments share memory", str(old[2]), str(new[2]), None))
    if old[3] != new[3]:
        found.append(GuardFailure("grad mode", str(old[3]), str(new[3]), None))
    return found


def _leaf_changes(path: str, a: Any, b: Any) -> list[GuardFailure]:
    tensors = isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) == 4
    if not tensors:
        return [GuardFailure(path, _describe_argument(a), _describe_argument(b), None)]
    found = []
    if len(a[0]) != len(b[0]):
        found.append(GuardFailure(f"number of dimensions of {path}", str(len(a[0])), str(len(b[0])), None))
    else:
        for i, (m, n) in enumerate(zip(a[0], b[0], strict=True)):
            if m != n:
                found.append(GuardFailure(f"dimension {i} of {path}", str(m), str(n), None))
    for what, m, n in zip(("dtype", "requires_grad", "identity"), a[1:], b[1:], strict=True):
        if m != n:
            found.append(GuardFailure(f"{what} of {path}", str(m), str(n), None))
    return found


def _describe_argument(signature: object) -> str:
    if isinstance(signature, tuple) and len(signature) == 4:
        return f"a tensor {signature[1]}{list(signature[0])}"
    if isinstance(signature, tuple) and len(signature) == 2:
        return describe_object(signature[1])
    return "a float" if signature is float else "another object"


def _argument_paths(structure: pytree.Structure, names: list[str]) -> list[str]:
    """Return the name of each leaf of (args, kwargs) in messages."""
    args, kwargs = structure.parts
    found: list[str] = []
    for i, part in enumerate(args.parts):
        _collect_paths(part, f"argument {names[i]!r}" if i < len(names) else f"argument {i}", found)
    for key, part in zip(kwargs.keys, kwargs.parts, strict=True):
        _collect_paths(part, f"argument {key!r}", found)
    return found


def _collect_paths(structure: pytree.Structure, path: str, found: list[str]) -> None:
    if structure.kind is None:
        found.append(path)
        return
    keys = structure.keys if len(structure.keys) == len(structure.parts) else range(len(structure.parts))
    if structure.kind in (list, tuple):
        keys = range(len(structure.parts))
    for key, part in zip(keys, structure.parts, strict=True):
        _collect_paths(part, f"{path}[{key!r}]", found)
