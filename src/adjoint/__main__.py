"""Command line: `adjoint train.py`, `adjoint explain train.py:step`, `adjoint run`, `adjoint launch`, `adjoint info`.

`python -m adjoint` is the same command where the package is not installed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

from adjoint.core.runtime.threads import get_num_threads

COMMANDS = ("explain", "run", "launch", "info")


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command, that of the process if none is given, and return the exit status."""
    if arguments is None:
        arguments = sys.argv[1:]
        if not sys.flags.safe_path:
            sys.path[0] = os.getcwd()  # which `python -m` has there, and an installed command its own folder
    command, *rest = arguments or [""]
    if command not in COMMANDS and command.endswith(".py"):
        command, rest = "run", [command, *rest]
    if command in ("run", "launch"):  # take their arguments as they are
        from adjoint.compat.run.script_runner import main as run_script

        return run_script(["-m", "adjoint.distributed.run", *rest] if command == "launch" else rest)
    options = _make_parser().parse_args([command, *rest] if command else [])
    if options.command == "info":
        sys.stdout.write("\n".join(f"{name:<12}{value}" for name, value in _describe_installation()) + "\n")
        return 0
    return _explain(options.target, options.arguments)


def _make_parser() -> argparse.ArgumentParser:
    name = "python -m adjoint" if os.path.basename(sys.argv[0]) == "__main__.py" else "adjoint"
    parser = argparse.ArgumentParser(name, description="Look into adjoint, or run a program with it.")
    parser.add_argument("--version", action="version", version=f"adjoint {vars(sys.modules['adjoint'])['__version__']}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    explain = commands.add_parser("explain", help="print which kernels a function of a script is compiled to")
    explain.add_argument("target", metavar="script.py:function", help="a function, method or compiled variable")
    explain.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the script")
    run = "run a program written for PyTorch: `import torch` means adjoint in it; a script's name alone does the same"
    commands.add_parser("run", help=run)
    commands.add_parser("launch", help="run a program on several processes, as torchrun does")
    commands.add_parser("info", help="print versions, threads, processor and cache folder")
    return parser


def _explain(target: str, arguments: Sequence[str]) -> int:
    if find_spec("llvmlite") is None:
        sys.stderr.write("adjoint explain: llvmlite, which compiles, is not installed: pip install llvmlite\n")
        return 1
    from adjoint.compiler.scripts.explain_script import ExplainError, explain_script

    try:
        text = explain_script(target, arguments)
    except (ExplainError, SyntaxError) as error:
        sys.stderr.write(f"adjoint explain: {error}\n")
        return 2
    sys.stdout.write(f"{text}\n")
    return 0


def _describe_installation() -> Iterator[tuple[str, str]]:
    """Yield names and values: versions, threads, the processor, the cache folder, settings in the environment."""
    yield "adjoint", str(vars(sys.modules["adjoint"])["__version__"])
    yield "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield "NumPy", np.__version__
    try:
        from adjoint.compiler.cache.disk_cache import default_directory
        from adjoint.compiler.llvm.jit.target import host
    except ImportError:
        yield "llvmlite", "not installed: compile() runs functions as they are"
    else:
        machine = host()
        yield "llvmlite", f"{version('llvmlite')}, LLVM {machine.version}"
        yield "processor", f"{machine.cpu}, vectors of {machine.vector_bits} bits"
        features = (feature[1:] for feature in machine.features.split(",") if feature.startswith("+"))
        yield "features", " ".join(sorted(features))
        yield "cache", default_directory() or "none: kernels are kept in memory"
    yield "threads", f"{get_num_threads()} of {os.cpu_count()}"
    for name in sorted(name for name in os.environ if name.startswith("ADJOINT_")):
        yield name, os.environ[name]


if __name__ == "__main__":
    sys.exit(main())
