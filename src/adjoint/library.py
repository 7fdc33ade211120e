"""`adjoint.library`: custom ops with names and gradients of their own, as `torch.library` has them.

Functions that programs register for other devices, for shapes or for PyTorch's dispatcher are accepted and not used:
ops run on the CPU, and their shapes are those of their results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from adjoint.autograd.function.function import Function
from adjoint.autograd.grad_mode import no_grad
from adjoint.core.tensor.tensor import Tensor

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "impl_abstract", "infer_schema", "ops",
    "register_autograd", "register_fake", "register_kernel", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

# Compiled libraries of ops whose ops are written anew, by their package and the beginning of their name: the namespace
# of the ops, the module where they are, and what makes them there.
REWRITTEN_LIBRARIES = {
    ("torchvision", "_C"): ("torchvision", "adjoint.compat.functions.torchvision_ops", "make_vision_ops"),
    ("torchaudio", "libtorchaudio"): ("torchaudio", "adjoint.compat.functions.torchaudio_ops", "make_audio_ops"),
    ("torchaudio", "_torchaudio"): ("_torchaudio", "adjoint.compat.functions.torchaudio_ops", "make_library_facts"),
}
_known: dict[str, CustomOpDef] = {}


class Ops(ModuleType):
    """Namespace of ops: `ops.space.op` is the op called "space::op"."""

    def load_library(self, path: object) -> None:
        """Take a library's ops from where they are written anew. Raises OSError for others: they are for PyTorch."""
        *folders, file = Path(str(path)).parts
        for (package, beginning), (space, module, make) in REWRITTEN_LIBRARIES.items():
            if package in folders[-2:] and file.startswith(beginning):
                setattr(self, space, getattr(import_module(module), make)())
                return
        raise OSError(f"{path}: libraries of ops are built for PyTorch, and cannot be loaded here")

    def __getattr__(self, name: str) -> OpNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return OpNamespace(name)


class OpNamespace:
    """Namespace that has no op: PyTorch has one under every name, so programs ask it for the op."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, op: str) -> NoReturn:
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op}'", name=op, obj=self)


class OpByName:
    """Function of PyTorch by its name, such as `ops.aten.add`, or of a variant: the tensor's method, or a function."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, variant: str) -> OpByName:
        if variant.startswith("__"):
            raise AttributeError(variant)
        return vars(self).setdefault(variant, OpByName(f"{self.name}.{variant}"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.name.split(".")[1]
        homes = [Tensor, *map(import_module, (f"{__package__}", f"{__package__}.nn.functional", f"{__package__}._VF"))]
        found = next((home for home in homes if hasattr(home, name)), None)
        if found is None:
            raise NotImplementedError(f"there is no op {self.name} here")
        return getattr(found, name)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.name}>"


ops = Ops("ops", Ops.__doc__)
vars(ops).update(aten=OpByName("aten"), prims=OpByName("prims"))


class CustomOpDef:
    """Named function, which records no history until `register_autograd` defines its gradient."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function
        self._signature = inspect.signature(function)
        self._differentiable: type[Function] | None = None

    @property
    def default(self) -> CustomOpDef:
        """The op itself: programs name the only variant of an op."""
        return self

    def overloads(self) -> list[str]:
        """Return the names of its variants, of which there is one."""
        return ["default"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if self._differentiable is not None:
            return self._differentiable.apply(*bound.arguments.values())
        with no_grad():
            return self._function(*bound.args, **bound.kwargs)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, **_: object
    ) -> None:
        """Define the gradients: `backward(ctx, *grads)` reads what `setup_context(ctx, inputs, output)` saved."""
        function, signature = self._function, self._signature

        class Differentiable(Function):
            @staticmethod
            def forward(ctx: Any, *values: object) -> Any:
                bound = signature.bind_partial()
                bound.arguments.update(zip(signature.parameters, values, strict=True))
                output = function(*bound.args, **bound.kwargs)
                if setup_context is not None:
                    setup_context(ctx, values, output)
                return output

            @staticmethod
            def backward(ctx: Any, *grads: object) -> Any:
                return backward(ctx, *grads)

        Differentiable.__name__ = f"GeneratedBackwardFor_{self._name.replace('::', '_')}"
        self._differentiable = Differentiable

    def register_fake(self, fn: Any = None, /) -> Any:
        """Return the function, which is not used: shapes are those of the results."""
        return fn

    def register_kernel(self, device_types: str | Iterable[str] | None, fn: Any = None, /) -> Any:
        """Set the function to call on these devices; it is used if the CPU is one of them."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        if device_types is None or "cpu" in ([device_types] if isinstance(device_types, str) else device_types):
            self._function = fn
        return fn

    register_vmap = register_fake


def custom_op(name: str, fn: Any = None, /, *, mutates_args: str | Iterable[str] = (), **_: object) -> Any:
    """Make an op called `name`, "space::op", of a function; without one, a decorator. `ops.space.op` is the op too."""
    if fn is None:
        return lambda function: custom_op(name, function)
    op = _known[name] = CustomOpDef(name, fn)
    space, short = name.split("::", 1)
    spaces = vars(ops)
    setattr(spaces.setdefault(space, SimpleNamespace()), short, op)
    return op


def register_autograd(
    op: object, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, **_: object
) -> None:
    """Call `register_autograd` of an op, or of the one with that name; for PyTorch's own ops it is ignored."""
    custom = _find_op(op)
    if custom is not None:
        custom.register_autograd(backward, setup_context=setup_context)


def register_kernel(op: object, device_types: str | Iterable[str] | None, func: Any = None, /, **_: object) -> Any:
    """Call `register_kernel` of an op, or of the one with that name; for PyTorch's own ops it is ignored."""
    custom = _find_op(op)
    if custom is not None:
        return custom.register_kernel(device_types, func)
    return _identity if func is None else func


def register_fake(op: object, func: Any = None, /, **_: object) -> Any:
    """Return the function, which is not used; without one, a decorator."""
    return _identity if func is None else func


impl_abstract = register_vmap = register_fake


def define(qualname: object, *args: object, **_: object) -> Any:
    """Do nothing: an op is known once it has a function."""


def impl(qualname: object, types: object, func: Any = None, **_: object) -> Any:
    """Return the function, which is not used; without one, a decorator."""
    return _identity if func is None else func


def triton_op(name: str, fn: Any = None, /, *, mutates_args: str | Iterable[str] = (), **_: object) -> Any:
    """Call `custom_op`."""
    return custom_op(name, fn, mutates_args=mutates_args)


def wrap_triton(kernel: Any, /) -> Any:
    """Return the kernel itself."""
    return kernel


def infer_schema(prototype_function: Callable[..., Any], /, **_: object) -> str:
    """Return the parameters of a function as text."""
    return str(inspect.signature(prototype_function))


class Library:
    """Namespace for ops in PyTorch's dispatcher: registrations are accepted and not used."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, *args: object, **kwargs: object) -> str:
        """Return the name in the schema."""
        return schema.partition("(")[0]

    def impl(self, op_name: object, fn: object, *args: object, **kwargs: object) -> None:
        """Do nothing."""

    fallback = impl


def _find_op(op: object) -> CustomOpDef | None:
    return op if isinstance(op, CustomOpDef) else _known.get(op) if isinstance(op, str) else None


def _identity(function: Any) -> Any:
    return function
