"""backpack: gradients of each sample, their variance, and curvature, beside the gradient."""

# requires: backpack-for-pytorch==1.7.1
import torch
from backpack import backpack, extend, extensions
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(16, 1, 8, 8), torch.arange(16) % 3
model = extend(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)))
criterion = extend(nn.CrossEntropyLoss())
for step in range(3):
    loss = criterion(model(x), y)
    model.zero_grad()
    with backpack(
        extensions.BatchGrad(), extensions.Variance(), extensions.SumGradSquared(), extensions.BatchL2Grad(),
        extensions.DiagGGNExact(), extensions.KFLR(), extensions.DiagHessian(),
    ):  # fmt: skip
        loss.backward()
    print(f"step {step + 1}: loss {loss.item():.5f}")
    for name, parameter in list(model.named_parameters())[:3]:
        facts = (
            parameter.grad_batch.norm(), parameter.variance.sum(), parameter.sum_grad_squared.sum(),
            parameter.batch_l2.sum(), parameter.diag_ggn_exact.sum(), parameter.kflr[0].norm(),
            parameter.diag_h.sum(),
        )  # fmt: skip
        print(name, *(f"{fact.item():.4e}" for fact in facts))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad / (parameter.diag_ggn_exact + 0.1)
