"""`import torch` means adjoint, and what is missing says so."""

from pathlib import Path

import pytest
from adjoint.run.version import VERSION
from tests.support.scripts import run, start

ASKS = [
    ("torch.foo", "AttributeError", "torch.foo"),
    ("torch.nn.Foo", "AttributeError", "torch.nn.Foo"),
    ("torch.nn.functional.foo", "AttributeError", "torch.nn.functional.foo"),
    ("from torch import foo", "ImportError", "torch.foo"),
    ("from torch.nn import Foo", "ImportError", "torch.nn.Foo"),
    ("import torch.foo", "ModuleNotFoundError", "torch.foo"),
    ("import torch.nn.foo.bar", "ModuleNotFoundError", "torch.nn.foo"),
    ("from torch.foo import bar", "ModuleNotFoundError", "torch.foo"),
    ("torch.hub.foo", "AttributeError", "torch.hub.foo"),  # of a module that has another name here
    ("import torch.cuda.amp.common; torch.cuda.amp.common.foo", "AttributeError", "torch.cuda.amp.foo"),
]


def test_each_missing_name_is_told_with_its_line(tmp_path: Path) -> None:
    lines = ["import torch"]
    for ask, kind, _ in ASKS:
        lines += ["try:", f"    {ask}", f"except {kind} as error:", "    print(type(error).__name__, error)"]
    told = run(tmp_path, "script.py", script="\n".join(lines)).out.splitlines()
    for i, ((_, kind, name), line) in enumerate(zip(ASKS, told, strict=True)):
        assert line.startswith(f"{kind} ")
        assert f"has no {name} ({tmp_path / 'script.py'}:{4 * i + 3}); docs/coverage.md" in line


@pytest.mark.parametrize(("ask", "kind", "name"), [ASKS[0], ASKS[3], ASKS[6]])
def test_a_missing_name_ends_a_script_at_its_own_line(tmp_path: Path, ask: str, kind: str, name: str) -> None:
    done = run(tmp_path, "script.py", script=f"import torch\n\n{ask}\n")
    assert done.status == 1
    line = done.error.splitlines()[-1]
    assert line.startswith(f"{kind}: ")
    assert f"has no {name} ({tmp_path / 'script.py'}:3); docs/coverage.md" in line
    assert done.error.count("File ") == 1  # the script's own line, and nothing of ours


def test_a_missing_method_is_told_with_its_line(tmp_path: Path) -> None:
    done = run(tmp_path, "script.py", script="import torch\nx = torch.ones(2)\nx.foo()\n")
    assert "AttributeError: 'Tensor' object has no attribute 'foo'" in done.error
    assert f"has no Tensor.foo ({tmp_path / 'script.py'}:3); docs/coverage.md" in done.error


PROGRAMS = {
    "names that are asked for and caught": ("""
        import importlib.util
        import torch
        import torch.nn.functional as F
        print(hasattr(torch, "foo"), hasattr(torch.nn, "foo"), hasattr(F, "foo"), hasattr(F, "relu"))
        print(getattr(torch, "foo", 1), importlib.util.find_spec("torch.foo"))
        try:
            from torch import foo
        except ImportError:
            foo = 2
        try:
            import torch.foo
        except ImportError:
            print(foo)
    """, "False False False True", "1 None", "2"),
    "names of adjoint alone are not torch's": ("""
        import torch
        print(hasattr(torch, 'array_api'), hasattr(torch, 'interop'), 'data' in dir(torch))
    """, "False False False"),
    "each module is adjoint's own": ("""
        import adjoint, torch, torch.nn.functional as F, torch.utils.data.dataloader
        from torch.optim import lr_scheduler
        print(torch.nn is adjoint.nn, F is adjoint.nn.functional, torch.Tensor is adjoint.Tensor)
        print(lr_scheduler is adjoint.optim.lr_scheduler, adjoint.__spec__.name, adjoint.nn.__spec__.name)
    """, "True True True", "True adjoint adjoint.nn"),
    "a star import brings functions and no submodules": ("""
        import random
        from torch import *
        print(random.__name__, ones(1).tolist(), Tensor, float32.itemsize)
    """, "random [1.0] <class 'torch.Tensor'> 4"),
    "packages ask for the version": ("""
        import importlib.metadata as m, torch
        print(m.version('torch') == torch.__version__, torch.__version__)
    """, f"True {VERSION}"),
    "addresses that other packages import": ("""
        import functorch, torch
        import torch.nn._reduction as _Reduction
        from functorch import make_functional, vmap
        from torch._functorch.eager_transforms import vjp
        from torch.distributed._tensor.experimental import implicit_replication
        from torch.distributed.elastic.multiprocessing.errors import record
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
        from torch.distributions.transforms import _clipped_sigmoid
        from torch.nn.modules.module import _addindent
        from torch.utils.data.dataloader import _collate_fn_t, _utils
        print(torch.torch is torch, torch.DeviceObjType is torch.device, torch.Future is torch.futures.Future)
        print(vmap is torch.func.vmap, vjp is torch.func.vjp, record(len)('ab') == 2, repr(_addindent("a\\nb", 2)))
        print(_clipped_sigmoid(torch.tensor(100.0)) < 1)
        try:
            implicit_replication()
        except NotImplementedError as error:
            print(error)
    """, "True True True", "True True True 'a\\n  b'", "tensor(True)",
        ("torch.distributed._tensor.experimental.implicit_replication is not part of adjoint: tensors lie on one "
         "rank: exchange parts by torch.distributed.nn.functional, in groups of a mesh")),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_is_to(tmp_path: Path, name: str) -> None:
    text, *lines = PROGRAMS[name]
    assert run(tmp_path, "script.py", script=text).out.splitlines() == lines


def test_installed_pytorch_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('PyTorch itself')", encoding="utf-8")
    (tmp_path / "torch" / "mine.py").write_text("", encoding="utf-8")
    text = "import torch\nprint(torch.ones(1).tolist())\ntry:\n    import torch.mine\nexcept ImportError:\n    print(0)"
    assert run(tmp_path, "script.py", script=text).out.splitlines() == ["[1.0]", "0"]


def test_stand_in_from_python(tmp_path: Path) -> None:
    text = "from adjoint.run import stand_in as s; s(); s(); import torch, adjoint; print(torch.nn is adjoint.nn)"
    assert start(tmp_path, "-c", text).out == "True"


def test_stand_in_after_pytorch_is_an_error(tmp_path: Path) -> None:
    text = "import sys; sys.modules['torch'] = sys; from adjoint.run import stand_in; stand_in()"
    done = start(tmp_path, "-c", text)
    assert done.error.splitlines()[-1].startswith("RuntimeError: stand_in: PyTorch itself has been imported before")


def test_versions_compare_as_versions() -> None:
    assert VERSION >= "2.2" and VERSION > "1.10" and not VERSION < "2.9"  # noqa: PT018
    assert VERSION >= (2, 0) and VERSION == (2, 13) and VERSION != (2, 12)  # noqa: PT018
    assert VERSION == "2.13.0+adjoint" and VERSION.split("+")[0] == "2.13.0"  # noqa: PT018
    assert VERSION <= "2.13.0" and hash(VERSION) == hash(str(VERSION))  # noqa: PT018
    with pytest.raises(TypeError):
        assert VERSION < 3


def test_packaging_reads_the_version() -> None:
    version = pytest.importorskip("packaging.version")
    assert version.parse(VERSION) > version.parse("2.12.1")
    assert version.parse("2.13") <= VERSION


def test_each_module_that_another_shows_can_be_imported_by_its_dotted_name(tmp_path: Path) -> None:
    script = """
        import torch, types
        from importlib import import_module
        from adjoint.compat.namespace import MODULES

        shown = 0
        modules = {row: import_module(f"torch.{row}") for row in MODULES if row not in {"array_api", "run"}}
        for row, module in modules.items():
            for name in dir(module):
                part = getattr(module, name, None)
                if isinstance(part, types.ModuleType) and part.__name__.partition(".")[2] == f"{row}.{name}":
                    assert import_module(f"torch.{row}.{name}") is part
                    shown += 1
        print(shown > 20)
        import torch.backends.cudnn as cudnn
        print(cudnn.benchmark)
    """
    assert run(tmp_path, "script.py", script=script).out == "True\nFalse"
