"""`compile_all`: the training regions of whole programs are compiled, without a decorator."""

from __future__ import annotations

import ast
import atexit
import re
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType

from adjoint.compiler.program.eager_step import has_llvmlite
from adjoint.compiler.scripts.parameter_loops import MARKS as PARAMETER_LOOP_MARKS
from adjoint.compiler.scripts.region_binding import UNBOUND as UNBOUND_VALUE
from adjoint.compiler.scripts.region_finder import find_training_regions
from adjoint.compiler.scripts.region_rewriter import REGIONS, UNBOUND, rewrite_regions, with_parts
from adjoint.compiler.scripts.training_region import make_regions, report_regions
from adjoint.compiler.trace.frames.trace_rules import SITE_PACKAGES_NAMES, is_user_file

# Of sources that may have a region. `grad` is called by itself, as `no_grad` is not, nor `zero_grad`.
MARKS = re.compile(rb"\.(?:backward|step)\(|\bgrad\(|\bgrad_and_value\(|\bvalue_and_grad\(|" + PARAMETER_LOOP_MARKS)


def compile_all() -> None:
    """Compile the training regions of every module that is imported from now on, but for installed packages.

    A training region is the part of a loop or function from the forward pass over `backward()` to the optimizer's step.
    Its first two runs are eager; then it is compiled as by `compile`, with the same results. What cannot be compiled,
    or is slower, stays eager. At the end of the process, and on SIGUSR1, a report tells what was compiled and what that
    saved. `python -m adjoint.run --compile train.py` does it for a program, its main module included. Without llvmlite
    a warning says so, and programs run as they are.

    Example:
        >>> import adjoint
        >>> adjoint.compile_all()  # doctest: +SKIP
        >>> import my_training_program  # doctest: +SKIP
    """
    if not has_llvmlite() or any(isinstance(finder, RegionFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, RegionFinder())
    atexit.register(_write_report)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and hasattr(signal, "SIGUSR1") and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, _write_report)


def compile_source(source: bytes, path: str, namespace: dict[str, object]) -> CodeType:
    """The code of a module with its training regions as functions that are compiled; runs in `namespace`."""
    tree = ast.parse(source, path)
    if has_llvmlite() and MARKS.search(source):
        regions = find_training_regions(tree)
        namespace[REGIONS] = make_regions(path, with_parts(regions))
        rewrite_regions(tree, regions, is_main=namespace.get("__name__") == "__main__")
        namespace[UNBOUND] = UNBOUND_VALUE
    return compile(tree, path, "exec", dont_inherit=True)


class RegionFinder(MetaPathFinder):
    """Finder of the program's own modules, whose training regions are compiled."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] == __name__.partition(".")[0]:
            return None  # a part of this library
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader or not is_user_file(spec.loader.path):
            return None
        if not set(SITE_PACKAGES_NAMES).isdisjoint(Path(spec.loader.path).parts):
            return None  # an installed package
        spec.loader = RegionLoader(spec.loader.name, spec.loader.path)
        return spec


class RegionLoader(SourceFileLoader):
    """Loader of a module whose training regions are compiled; it neither reads nor writes bytecode files."""

    def exec_module(self, module: ModuleType) -> None:
        exec(compile_source(self.get_data(self.path), self.path, vars(module)), vars(module))


def _write_report(number: int = 0, frame: FrameType | None = None) -> None:
    """Write the report to standard error: at the end of the process, or as the handler of a signal."""
    sys.stderr.write(f"adjoint: {report_regions()}\n")
