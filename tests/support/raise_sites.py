"""Errors that the library raises, by their place in its source, and those among them that no remedy knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from adjoint.diagnosis.remedies import remedy_order
from adjoint.diagnosis.remedies.requirements.checkpoint_files import KINDS_OF_DAMAGE

PACKAGE = Path(remedy_order.__file__).parents[2]
# PyTorch's own surface, what the compiler tells of itself, and what only several processes or other programs see
UNREACHABLE = ("compat", "compiler", "diagnosis", "distributed", "interop/onnx", "core/viewer")
EXAMPLES = (
    "3",
    "(3, 4)",
    "Tensor",
    "[3, 4]",
    "<class 'float'>",
    "SqrtBackward0",
    "'name'",
    "buffer",
    "channels_last",
)  # what may stand where a message has a value
GENERAL_TEXTS = ("zzqq xyz kk", "a zz: b (c)")  # of no error: a remedy for these tries a change of the line

# messages whose remedy is found by trying a change of the line, each with a program of `mistakes` that shows it
SOLVED_BY_TRIALS = {
    r"not implemented for|is not implemented for (?:tensors of )?type": "gelu_int",
    r"does not support (?:bool|uint8)|bool is not supported|only supported for float|Got .*dtype": "gradient_uint8",
    r"must not be a (?:floating|complex)|must be floating|drop the imaginary|non-complex": "add_int_alpha",
    r"not a valid value for|is not valid$|invalid norm type|Invalid normalization mode": "triplet_reduction",
    r"Unknown|Unsupported|Unrecogni[sz]ed|unrecognised|Invalid padding|activation should be": "pad_mode_word",
    r"one of|Expected strategy|Only allowed values|Expected loss_reduction|Valid options": "orthogonal_map",
    r"has to be greater|only p == 1|edge_order=1 and|should be smaller|Found dim=": "gradient_edge",
    r"Order .* not supported": "matrix_norm_ord",
    r"Invalid decay|expects p to be in|is outside \[|alpha cannot be 0": "ema_decay",
    r"cannot be `True` together|`fused` does not support|kwarg when|argument `driver=`|x and dx": "fused_foreach",
    r"Expected float or int|must all be instances of Number": "cosine_restarts_eta",
    r"does not result in an equal division": "numpy_split",
    r"invalid combination of arguments - got": "module_to_list",
    r"requires the return_complex parameter": "stft_return_complex",
}

# words by which a message says itself what to write
OWN_ADVICE = re.compile(
    r"; (?:use|take|convert|clone|return|leave|wrap|make|map|do)\b|: (?:use|convert|let|clone)\b|pip install|"
    r"[Yy]ou (?:can|must|should)|Hint|\bUse \w|use \w+[.(]|Specify|Please|instead|: set |import adjoint"
)


class RaiseSite(NamedTuple):
    """A statement that raises, and the words of its error, with `{name}` for values."""

    place: str
    kind: str
    message: str

    def is_known(self, patterns: list[re.Pattern[str]]) -> bool:
        """Return whether the message, with some values in it, has one of the patterns."""
        if self.kind in KINDS_OF_DAMAGE or OWN_ADVICE.search(self.message):
            return True
        if any(re.search(pattern, self.message) for pattern in SOLVED_BY_TRIALS):
            return True
        texts = dict.fromkeys(re.sub(r"\{[^}]*\}", each, self.message) for each in EXAMPLES)
        return any(pattern.search(text) for text in texts for pattern in patterns)


def find_raise_sites() -> Iterator[RaiseSite]:
    """Yield the statements of the package that raise an error with a text, of those that a user may see."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        text = path.read_text(encoding="utf-8")
        if name.startswith(UNREACHABLE) or "raise " not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                message = write_message(node.exc.args[0])
                if message:
                    yield RaiseSite(f"{name}:{node.lineno}", getattr(node.exc.func, "id", ""), message)


def write_message(node: ast.expr) -> str:
    """Return the text of an expression, with `{name}` for what is computed; "" where nothing of it is known."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.FormattedValue) else each for each in node.values)
        return "".join(write_message(each) if isinstance(each, ast.Constant) else "{value}" for each in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return "".join(write_message(each) or "{value}" for each in (node.left, node.right))
    return ""


def find_patterns() -> list[re.Pattern[str]]:
    """Return the patterns of the remedies that know an error by its words."""
    patterns = [pattern for pattern, _ in remedy_order.REMEDIES]
    return [each for each in patterns if each.pattern and not any(map(each.search, GENERAL_TEXTS))]
