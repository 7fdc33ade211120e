"""Loads of scientific computing: equations, operators, densities, transport."""

from __future__ import annotations

from typing import Any

import numpy as np

from .recipe import Recipe, draw_batches, load


@load("neural-ode", "an ODE's right-hand side, fitted through 20 Runge–Kutta steps", width=4, steps=2, batch=3)
def neural_ode(width: int = 48, steps: int = 20, batch: int = 64) -> Recipe:
    """After Chen and others, 2018, differentiated through the solver."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        f = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4))

        def loss(y: Any, target: Any) -> Any:
            h = 1.0 / steps
            for _ in range(steps):
                k1 = f(y)
                k2 = f(y + h / 2 * k1)
                k3 = f(y + h / 2 * k2)
                k4 = f(y + h * k3)
                y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return nn.functional.mse_loss(y, target)

        return f, loss

    batches = draw_batches(lambda n: ((y := n.normal(size=(batch, 4))), np.roll(y, 1, 1) * 0.7))
    return Recipe(batches, build)


@load("fourier-operator", "Fourier neural operator: rfft2, complex products, irfft2", width=3, modes=2, side=8, batch=2)
def fourier_operator(width: int = 20, modes: int = 10, side: int = 48, batch: int = 4) -> Recipe:
    """After Li and others, 2021."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn

        class Spectral(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                shape = (2, width, width, modes, modes, 2)
                self.weight = nn.Parameter(library.rand(shape) / width)
                self.local = nn.Conv2d(width, width, 1)

            def forward(self, x: Any) -> Any:
                spectrum = library.fft.rfft2(x)
                weight = library.view_as_complex(self.weight)
                low = library.einsum("bixy,ioxy->boxy", spectrum[:, :, :modes, :modes], weight[0])
                high = library.einsum("bixy,ioxy->boxy", spectrum[:, :, -modes:, :modes], weight[1])
                rows, columns = side - 2 * modes, side // 2 + 1 - modes
                whole = library.cat([low, library.zeros(batch, width, rows, modes, dtype=low.dtype), high], 2)
                whole = nn.functional.pad(whole, (0, columns))
                return library.relu(library.fft.irfft2(whole, s=(side, side)) + self.local(x))

        model = nn.Sequential(nn.Conv2d(1, width, 1), Spectral(), Spectral(), nn.Conv2d(width, 1, 1))
        return model, lambda x, y: library.linalg.vector_norm(model(x) - y) / library.linalg.vector_norm(y)

    batches = draw_batches(lambda n: ((x := n.normal(size=(batch, 1, side, side)).cumsum(-1) / 5), np.roll(x, 3, -2)))
    return Recipe(batches, build)


@load("gaussian-mixture", "full covariances: batches of Cholesky factors and solves", size=2, parts=2, batch=5)
def gaussian_mixture(size: int = 12, parts: int = 24, batch: int = 256) -> Recipe:
    """Log likelihood of points under a mixture of normal distributions."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        model = nn.Module()
        model.logits = nn.Parameter(library.zeros(parts))
        model.means = nn.Parameter(library.randn(parts, size))
        model.roots = nn.Parameter(library.randn(parts, size, size) / size**0.5)

        def loss(x: Any) -> Any:
            covariance = model.roots @ model.roots.mT + 0.1 * library.eye(size)
            factor = library.linalg.cholesky(covariance)
            apart = (x[:, None] - model.means).permute(1, 2, 0)  # (parts, size, batch)
            white = library.linalg.solve_triangular(factor, apart, upper=False)
            volume = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
            density = -0.5 * white.square().sum(1) - volume[:, None] - 0.919 * size
            return -library.logsumexp(density + library.log_softmax(model.logits, 0)[:, None], 0).mean()

        return model, loss

    return Recipe(draw_batches(lambda n: (n.normal(size=(batch, size)),)), build, "Adam", {"lr": 1e-2})


@load("least-squares", "a layer that solves regularised normal equations", rows=8, size=3)
def least_squares(rows: int = 400, size: int = 120) -> Recipe:
    """Features from a network; the last layer is solved for, and the loss on other rows differentiated through it."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        features = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, size))
        half = rows // 2

        def loss(x: Any, y: Any) -> Any:
            phi = features(x)
            matrix = phi[:half].mT @ phi[:half] + 0.1 * library.eye(size)
            weights = library.linalg.solve(matrix, phi[:half].mT @ y[:half])
            return nn.functional.mse_loss(phi[half:] @ weights, y[half:]) + 1e-3 * library.logdet(matrix) / size

        return features, loss

    batches = draw_batches(lambda n: ((x := n.normal(size=(rows, 8))), np.sin(x[:, :1] * 2) + x[:, 1:2] ** 2))
    return Recipe(batches, build)


@load("transport", "Sinkhorn's iterations in logarithms between two clouds of points", size=6, rounds=2)
def transport(size: int = 200, rounds: int = 25) -> Recipe:
    """Moves the points of one cloud to another by the gradient of the cost of transport."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        model = nn.Module()
        model.points = nn.Parameter(library.randn(size, 3))

        def loss(other: Any) -> Any:
            cost = (model.points[:, None] - other[None]).square().sum(-1)
            f, g, share = library.zeros(size), library.zeros(size), -float(np.log(size))
            for _ in range(rounds):
                f = -0.1 * library.logsumexp((g[None] - cost) / 0.1 + share, 1)
                g = -0.1 * library.logsumexp((f[:, None] - cost) / 0.1 + share, 0)
            return f.mean() + g.mean()

        return model, loss

    return Recipe(draw_batches(lambda n: (n.normal(size=(size, 3)) + 1,)), build, "SGD", {"lr": 1.0})


@load("sets", "sets of points: sums, counts and extremes of each by scatter", points=9, sets=3, width=4)
def sets(points: int = 3000, sets: int = 64, width: int = 64) -> Recipe:
    """After Zaheer and others, 2017."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        inner = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width))
        outer = nn.Sequential(nn.Linear(2 * width + 1, width), nn.ReLU(), nn.Linear(width, 5))
        model = nn.ModuleList([inner, outer])

        def loss(x: Any, owner: Any, y: Any) -> Any:
            hidden = inner(x)
            rows, nothing = owner[:, None].expand_as(hidden), library.zeros(sets, width)
            total = nothing.scatter_add(0, rows, hidden)
            largest = nothing.scatter_reduce(0, rows, hidden, "amax", include_self=False)
            count = library.zeros(sets).index_add(0, owner, library.ones(points))[:, None]
            return nn.functional.cross_entropy(outer(library.cat([total / (count + 1), largest, count], 1)), y)

        return model, loss

    batches = draw_batches(
        lambda n: (n.normal(size=(points, 6)), np.sort(n.integers(0, sets, points)), n.integers(0, 5, sets))
    )
    return Recipe(batches, build)


@load("clusters", "centres of clusters: differences of three coordinates, broadcast", points=8, centres=3)
def clusters(points: int = 2000, centres: int = 16) -> Recipe:
    """Soft k-means by gradients, with a margin between the centres."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        model = nn.Embedding(centres, 3)

        def loss(x: Any) -> Any:
            apart = ((x[:, None] - model.weight) ** 2).sum(2)
            between = (model.weight[:, None] - model.weight).abs().sum(2)
            spread = nn.functional.threshold(1 - between, 0.0, 0.0).mean()
            return (library.softmax(-2 * apart, 1) * apart).sum(1).mean() + apart.amin(1).mean() + spread

        return model, loss

    return Recipe(draw_batches(lambda n: (n.normal(size=(points, 3)),)), build)
