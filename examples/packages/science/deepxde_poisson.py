"""deepxde on its PyTorch backend: a physics-informed network for Poisson's equation, and an inverse problem."""

# requires: deepxde==1.15.0
import os

os.environ["DDE_BACKEND"] = "pytorch"
import deepxde as dde
import numpy as np
import torch

dde.config.set_random_seed(0)
dde.config.set_default_float("float64")


def poisson(x, y):
    """Residual of -y'' = π² sin(πx)."""
    return -dde.grad.hessian(y, x) - np.pi**2 * torch.sin(np.pi * x)


line = dde.geometry.Interval(-1, 1)
boundary = dde.icbc.DirichletBC(line, lambda x: 0, lambda x, on_boundary: on_boundary)
data = dde.data.PDE(line, poisson, boundary, 16, 2, solution=lambda x: np.sin(np.pi * x), num_test=50)
model = dde.Model(data, dde.nn.FNN([1, 20, 20, 1], "tanh", "Glorot uniform"))
model.compile("adam", lr=5e-3, metrics=["l2 relative error"], verbose=0)
history, _ = model.train(iterations=150, display_every=50, verbose=0)
for step, losses, errors in zip(history.steps, history.loss_train, history.metrics_test, strict=True):
    print(f"step {step}: loss {losses[0]:.5f} {losses[1]:.6f} error {errors[0]:.5f}")

rate = dde.Variable(0.5)
observed = np.linspace(0, 1, 8)[:, None]
inverse = dde.data.PDE(
    dde.geometry.Interval(0, 1),
    lambda x, y: dde.grad.jacobian(y, x) + rate * y,
    [dde.icbc.PointSetBC(observed, np.exp(-1.5 * observed))],
    num_domain=10,
    anchors=observed,
)
model = dde.Model(inverse, dde.nn.FNN([1, 12, 1], "tanh", "Glorot normal"))
model.compile("adam", lr=0.02, external_trainable_variables=[rate], verbose=0)
history, _ = model.train(iterations=150, display_every=150, verbose=0)
print(f"rate {rate.item():.5f} loss {sum(history.loss_train[-1]):.6f}")
