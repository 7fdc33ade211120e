"""docs/coverage.md: which of PyTorch's documented names are here. `python3 tools/coverage.py` writes it anew."""

from __future__ import annotations

import re
import runpy
import sys
import textwrap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
NAMES: dict[str, str] = runpy.run_path(str(Path(__file__).with_name("documented_names.py")))["NAMES"]
HEAD = """# Coverage of PyTorch's names

Made by `tools/coverage.py`. The names are those that PyTorch 2.13 documents in these modules, left out what is for its
own parts alone: kernels of a library (`cudnn_…`), of quantisation, of its script language. What is here has PyTorch's
parameters, defaults, types and errors: `tests/functions/test_every_function.py` compares functions on PyTorch's own
samples, and the tests of modules, optimizers, schedules and distributions compare each with its namesake.
"""
DEVICE = "the only device is the CPU"
REASONS: dict[str, str] = {
    r"(torch|Tensor)\.chalf|torch\.complex32": "NumPy has no complex numbers of 16-bit floats",
    r"torch\.(float[48]_|u?int[1-7]$).*": "NumPy has no such element type",
    r"torch\.(qint|quint).*": "there is no quantisation",
    r"torch\.(Event|Stream)|Tensor\.(cuda|ipu|mtia|xpu|record_stream|to_mkldnn)": DEVICE,
    r"torch\.cond": "a Python `if` does it; a compiled step has adjoint.where",
    r"Tensor\.to_padded_tensor": "there are no nested tensors",
    r"Tensor\.(index|storage_type)": "not yet",
    r"nn\.functional\.(scaled_mm|scaled_grouped_mm)": "NumPy has no floats of 8 bits",
    r"optim\.swap_in_optimizer_params_and_state": "of PyTorch's compiler",
    r"autograd\.graph\.region_activation_memory_budget": "a compiled step has compile(recompute=)",
}


def main() -> None:
    """Write the page, and say whether that changed it."""
    page = coverage()
    fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: {'as it was' if fresh else 'written anew'}\n")


def coverage() -> str:
    """The page: how many of each module's names are there, what is missing and why, and the names."""
    rows, sections = [], []
    for module, names in names_of().items():
        missing = [name for name in names if not present(module, name)]
        here = len(names) - len(missing)
        rows.append(f"| {module} | {here} | {len(names)} | {100 * here // len(names)} % |\n")
        sections.append(_section(module, [name for name in names if name not in missing], missing))
    head = "\n| module | here | of | share |\n| --- | --- | --- | --- |\n"
    return HEAD + head + "".join(rows) + "".join(sections)


def names_of() -> dict[str, list[str]]:
    """The documented names of each module."""
    return {module: names.split() for module, names in NAMES.items()}


def present(module: str, name: str) -> bool:
    """True if `adjoint` has the name where PyTorch has it."""
    place: Any = import_module("adjoint")
    for part in [*([] if module == "torch" else module.split(".")), *name.split(".")]:
        inside = f"{getattr(place, '__name__', None)}.{part}"
        if not hasattr(place, part) and not (hasattr(place, "__path__") and find_spec(inside)):
            return False
        place = getattr(place, part) if hasattr(place, part) else import_module(inside)
    return type(place).__name__ != "UnsupportedDType"  # a type that has a name only


def reason(module: str, name: str) -> str | None:
    """Why a name is not here; None if nobody said."""
    return next((why for pattern, why in REASONS.items() if re.fullmatch(pattern, f"{module}.{name}")), None)


def _section(module: str, here: list[str], missing: list[str]) -> str:
    reasons: dict[str, list[str]] = {}
    for name in missing:
        reasons.setdefault(reason(module, name) or "", []).append(name)
    table = "".join(f"| {' '.join(f'`{name}`' for name in names)} | {why} |\n" for why, names in reasons.items())
    listed = textwrap.fill(" ".join(f"`{name}`" for name in here), 120, break_long_words=False, break_on_hyphens=False)
    rest = f"\n| missing | why |\n| --- | --- |\n{table}" if missing else ""
    return f"\n## {module}\n{rest}\n{listed}\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    main()
