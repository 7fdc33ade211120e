"""Calls of SciPy, matplotlib, pandas and scikit-learn as programs write them, with tensors where arrays are expected.

Each line of the files in `idioms` is an expression. `t` is the library that makes the tensors `X`, `y`, …; `f` and `g`
are functions of this file. Lines that end in `# t` need a library that differentiates: PyTorch tells what is right. For
the others NumPy's arrays in place of the tensors do so.
"""

from __future__ import annotations

import io
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "idioms"
IDIOMS = {name: (FOLDER / f"{name}.txt").read_text() for name in ("scipy", "matplotlib", "pandas", "sklearn")}


def make_tensors(library: Any) -> dict[str, Any]:
    """Return the tensors that idioms name, made by a library: NumPy makes arrays."""
    rng = np.random.default_rng(3)
    X, labels = rng.standard_normal((60, 3)), rng.integers(0, 2, 60)
    arrays = {
        "X": X, "y": X @ [1.0, -2.0, 0.5] + labels, "c": labels, "u": np.linspace(0.0, 1.0, 20),
        "p": np.array([0.2, 0.3, 0.5]), "i": np.array([2, 0, 1]), "m": labels > 0,
        "S": np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]]),
    }  # fmt: skip
    return arrays if library is np else {name: library.from_numpy(array) for name, array in arrays.items()}


def make_functions(library: Any) -> SimpleNamespace:
    """Return `f`: functions of NumPy's operators that take arrays and give what the library makes of them."""
    made = make_tensors(library)
    as_made = np.asarray if library is np else library.as_tensor

    def save_and_load(save: Any, load: Any, value: Any) -> Any:
        file = io.BytesIO()
        save(file, value)
        file.seek(0)
        return load(file)

    def put(into: Any, key: Any, value: Any) -> Any:
        into[key] = value
        return getattr(into, "obj", into)

    def draw(*_: object) -> int:
        plt = import_module("matplotlib.pyplot")
        plt.gcf().canvas.draw()
        return len(plt.gca().patches)

    return SimpleNamespace(
        bowl=lambda x, center=made["p"]: ((as_made(x) - center) ** 2).sum(),
        parabola=lambda x: (as_made(x) - 1.0) ** 2,
        cubic=lambda x: as_made(x) ** 3 - 2.0,
        system=lambda x: made["S"] @ as_made(x) + as_made(x) ** 3 - 1.0,
        line=lambda x, slope, offset: slope * as_made(x) + offset,
        decay=lambda _, x: -as_made(x),
        double=lambda x: 2.0 * as_made(x),
        saved=save_and_load,
        put=put,
        drawn=draw,
    )


def make_gradients(t: Any) -> SimpleNamespace:
    """Return `g`: functions that give tensors and their gradients, by a library that differentiates."""
    S = make_tensors(t)["S"]

    def rosenbrock(x: Any) -> Any:
        return (10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def leaf(x: Any) -> Any:
        return t.tensor(x, dtype=t.float64, requires_grad=True)

    def value_and_gradient(x: Any) -> Any:
        x = leaf(x)
        loss = rosenbrock(x)
        loss.backward()
        return loss.detach(), x.grad

    def system(x: Any) -> Any:
        return S @ x + x**3 - 1.0

    def model(x: Any, slope: Any, offset: Any) -> Any:
        return slope * t.as_tensor(x) + offset

    jacobian, hessian = t.autograd.functional.jacobian, t.autograd.functional.hessian
    return SimpleNamespace(
        rosen=value_and_gradient,
        value=lambda x: value_and_gradient(x)[0],
        gradient=lambda x: value_and_gradient(x)[1],
        hessian=lambda x: hessian(rosenbrock, leaf(x)),
        inside=lambda x: 4.0 - (t.as_tensor(x) ** 2).sum(),
        slope=lambda x: -2.0 * t.as_tensor(x),
        system=lambda x: system(t.as_tensor(x)),
        system_slope=lambda x: jacobian(system, leaf(x)),
        model=model,
        model_slope=lambda x, *_: t.stack([t.as_tensor(x), t.ones_like(t.as_tensor(x))], 1),
    )


def evaluate(package: str, idiom: str, library: Any) -> Any:
    """Return what an idiom gives with tensors of a library, as arrays, numbers and text."""
    names: dict[str, Any] = {"np": np, "t": library, "f": make_functions(library), **make_tensors(library)}
    if differentiates(idiom):
        names["g"] = make_gradients(library)
    if package == "matplotlib":
        import_module("matplotlib").use("Agg")
        names["plt"] = import_module("matplotlib.pyplot")
        names["plt"].close("all")
    else:
        names["pd" if package == "pandas" else package] = import_module(package)
        for path in re.findall(rf"{package}(?:\.\w+)+", idiom):
            import_parts(path)
    return as_plain(eval(idiom, names))


def differentiates(idiom: str) -> bool:
    """Whether an idiom needs a library with gradients."""
    return idiom.endswith("# t")


def import_parts(path: str) -> None:
    """Import the modules that lead to `package.part.function`."""
    steps = path.split(".")
    for end in range(2, len(steps)):
        try:
            import_module(".".join(steps[:end]))
        except ModuleNotFoundError:  # a class, of which a method is called
            return


def as_plain(value: Any) -> Any:
    """Convert what a package gave to arrays, numbers and text, nested in tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(map(as_plain, value))
    if hasattr(value, "detach"):
        return value.detach().numpy()
    if hasattr(value, "to_string"):  # of pandas
        return value.to_string()
    return str(value.to_numpy()) if hasattr(value, "to_numpy") else value


def assert_same(found: Any, expected: Any) -> None:
    """Compare what `evaluate` returned for two libraries."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for part, other in zip(found, expected, strict=True):
            assert_same(part, other)
    elif (kind := np.asarray(expected).dtype).kind in "biufc":  # matplotlib keeps some numbers as objects
        np.testing.assert_allclose(np.asarray(found).astype(kind), np.asarray(expected), rtol=1e-4, atol=1e-6)
    else:
        assert str(found) == str(expected)
