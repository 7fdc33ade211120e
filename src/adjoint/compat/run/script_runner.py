"""Runner of programs: `__main__`, `sys.argv`, `sys.path` and tracebacks are as Python itself would make them."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any

from adjoint.compat.run.import_hook import stand_in
from adjoint.compat.run.missing_names import describe_missing
from adjoint.compat.stubs.devices.cuda_on_cpu import follow_parent, let_cuda_mean_cpu
from adjoint.core.runtime.compile_slot import compile_source_slot
from adjoint.core.runtime.launcher_variables import set_torch_variables
from adjoint.core.tensor.tensor import Tensor

USAGE = """\
usage: python -m adjoint.run [--compile] [--doctor] [--cuda=cpu] script.py [args…]
       python -m adjoint.run [--compile] [--doctor] [--cuda=cpu] -m module [args…]

Runs a program written for PyTorch, unmodified, on adjoint: `import torch` means adjoint in it.
--compile compiles its training steps, and reports at the end what that saved.
--doctor watches its first training steps, and reports at the end what is silently wrong with them.
--cuda=cpu lets a program that asks for CUDA have the CPU; --cuda=cpu:4 shows it four devices."""
FLAGS = frozenset(("--compile", "--doctor"))
MakeCode = Callable[[bytes, str, dict[str, object]], CodeType]  # of a source, its path, and the names it will run with
RUN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
# PyTorch's launchers, which start programs in the same way: the options by which ours does what they do
LAUNCHERS = {"torch.distributed.run": (), "torch.distributed.launch": ("--passes-local-rank",)}
SCRIPT, MODULE = "ADJOINT_RUN_SCRIPT", "ADJOINT_RUN_MODULE"  # tell a spawned process what its parent runs


class MainSpec(ModuleSpec):
    """Spec of a program's `__main__`, whose name `multiprocessing` imports in the processes that it spawns."""

    def __init__(self, package: str | None) -> None:
        super().__init__("adjoint.compat.run.spawn_child", None)
        self.package = package

    @property
    def parent(self) -> str | None:
        """Package that the program's relative imports start from."""
        return self.package


def main(arguments: list[str]) -> int:
    """Run `[options] script.py args…` or `[options] -m module args…`. Returns the exit status."""
    flags, cuda, arguments = _take_options(arguments)
    if arguments and arguments[0] in {"-h", "--help"}:
        sys.stdout.write(f"{USAGE}\n")
        return 0
    named = bool(arguments) and arguments[0] == "-m"
    rest = arguments[1:] if named else arguments
    if not rest or rest[0].startswith("-"):
        sys.stderr.write(f"{USAGE}\n")
        return 2
    if named and rest[0] in LAUNCHERS:  # the ranks are told of CUDA
        told = [] if cuda is None else [f"--cuda={cuda}"]
        rest, cuda = ["adjoint.distributed.run", *LAUNCHERS[rest[0]], *told, *rest[1:]], None
    stand_in()
    set_torch_variables()
    if "RANK" in os.environ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # lines of ranks do not mix, and none is lost when one is ended
    try:
        _serve_cuda(cuda)
    except ValueError as error:
        sys.stderr.write(f"{sys.executable}: {error}\n")
        return 2
    os.environ.pop(SCRIPT if named else MODULE, None)
    os.environ[MODULE if named else SCRIPT] = rest[0] if named else os.path.abspath(rest[0])
    sys.argv = rest
    try:
        make_code = _make_code
        if "--compile" in flags:
            sys.modules["adjoint"].compile_all()  # of the modules that are imported from now on
            make_code = compile_source_slot.call
        code, module = (_module if named else _script)(rest[0], "__main__", make_code)
    except OSError as error:
        sys.stderr.write(f"{sys.executable}: can't open file {error.filename!r}: {error.strerror}\n")
        return 2
    except ImportError as error:
        sys.stderr.write(f"{sys.executable}: {error}\n")
        return 1
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1
    if "--doctor" not in flags:
        return _run(code, module)
    from adjoint.diagnosis.doctor import doctor

    with doctor():
        return _run(code, module)


def _take_options(arguments: list[str]) -> tuple[set[str], str | None, list[str]]:
    """Return the flags ahead of the program, the value of `--cuda`, and the rest."""
    flags, cuda, rest = set[str](), None, list(arguments)
    while rest and (rest[0] in FLAGS or rest[0].partition("=")[0] == "--cuda"):
        option, equals, value = rest.pop(0).partition("=")
        if option == "--cuda":
            cuda = value if equals else rest.pop(0) if rest else ""
        else:
            flags.add(option)
    return flags, cuda, rest


def _make_code(source: bytes, path: str, namespace: dict[str, object]) -> CodeType:
    return compile(source, path, "exec", dont_inherit=True)


def _serve_cuda(cuda: str | None) -> None:
    """Have CUDA mean the CPU, as the command line says, which is told once for all ranks, or the parent process."""
    if cuda is not None:
        told = let_cuda_mean_cpu(cuda)
        if os.environ.get("RANK", "0") == "0":
            sys.stderr.write(f"adjoint: {told}\n")
    else:
        follow_parent()


def rerun_main() -> dict[str, Any]:
    """Run the main module in a spawned process as `__mp_main__`, and return its names."""
    stand_in()
    _serve_cuda(None)
    name = os.environ.get(MODULE)
    code, module = (_module if name else _script)(name or os.environ[SCRIPT], "__mp_main__", _make_code)
    exec(code, vars(module))
    return vars(module)


def _run(code: CodeType, module: ModuleType) -> int:
    sys.modules["__main__"] = module
    try:
        exec(code, vars(module))
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - as Python does at the end of a program
        trace = _trim_traceback(error.__traceback__)
        _note_missing_method(error, trace)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _script(path: str, name: str, make_code: MakeCode) -> tuple[CodeType, ModuleType]:
    """Return a file's code and the module to run it in. Modules beside it can be imported."""
    path = os.path.abspath(path)
    if os.path.isdir(path):
        folder, path = path, os.path.join(path, "__main__.py")
    else:
        folder = os.path.dirname(os.path.realpath(path))
    module = _main_module(name, path, None, SourceFileLoader(name, path))
    with io.open_code(path) as file:
        code = make_code(file.read(), path, vars(module))
    if name == "__main__" and not sys.flags.safe_path:
        sys.path[0] = folder
    return code, module


def _module(name: str, main: str, make_code: MakeCode) -> tuple[CodeType, ModuleType]:
    """Return the code of a module, or of a package's `__main__`, and the module to run it in."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name = f"{name}.__main__"
        spec = importlib.util.find_spec(name)
    if spec is None:
        raise ImportError(f"No module named {name}")
    code = spec.loader.get_code(name) if isinstance(spec.loader, InspectLoader) else None
    if code is None or spec.origin is None:
        raise ImportError(f"No code object available for {name}")
    sys.argv[0] = spec.origin
    module = _main_module(main, spec.origin, spec.parent, spec.loader)
    if make_code is not _make_code and isinstance(spec.loader, SourceFileLoader):
        code = make_code(spec.loader.get_data(spec.origin), spec.origin, vars(module))
    return code, module


def _main_module(name: str, path: str, package: str | None, loader: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(__file__=path, __package__=package, __loader__=loader, __spec__=MainSpec(package))
    vars(module).update(__cached__=None, __builtins__=builtins, __annotations__={})
    return module


def _trim_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Remove the frames of this package from both ends of a traceback."""
    while trace is not None and _is_own_frame(trace):
        trace = trace.tb_next
    last = entry = trace
    while entry is not None:
        if not _is_own_frame(entry):
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None
    return trace


def _is_own_frame(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(RUN_FOLDER)


def _note_missing_method(error: BaseException, trace: TracebackType | None) -> None:
    """Add a note to the error for a method that tensors lack."""
    if not isinstance(error, AttributeError) or trace is None or not isinstance(error.obj, Tensor | type):
        return
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    if issubclass(kind, Tensor) and error.name is not None:
        while trace.tb_next is not None:
            trace = trace.tb_next
        error.add_note(describe_missing(f"Tensor.{error.name}", trace.tb_frame))
