"""captum: which inputs a trained classifier looks at, by seven methods of attribution."""

# requires: captum==0.9.0
import numpy as np
import torch
from captum import attr
from torch import nn

torch.manual_seed(0)
x = torch.randn(128, 6)
y = (x[:, 0] + 0.5 * x[:, 1] * x[:, 2] > 0).long()
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(40):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")

inputs, baseline = x[:8], torch.zeros(8, 6)
for name, method, options in (
    ("saliency", attr.Saliency(model), {}),
    ("input × gradient", attr.InputXGradient(model), {}),
    ("integrated gradients", attr.IntegratedGradients(model), {"baselines": baseline, "n_steps": 20}),
    ("DeepLift", attr.DeepLift(model), {"baselines": baseline}),
    ("gradient SHAP", attr.GradientShap(model), {"baselines": x[8:40], "n_samples": 4}),
    ("ablation", attr.FeatureAblation(model), {"baselines": baseline}),
    ("layer conductance", attr.LayerConductance(model, model[0]), {"n_steps": 20}),
):
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - GradientShap draws from it
    values = method.attribute(inputs, target=1, **options)
    print(f"{name}:", *(f"{value:.4f}" for value in values.abs().mean(0)[:6].tolist()))
