"""opacus: differentially private SGD: gradients of each sample, clipped, with noise, and the budget that is spent."""

# requires: opacus==1.6.0
import warnings

import torch
from opacus import PrivacyEngine
from opacus.validators import ModuleValidator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
torch.manual_seed(0)
images = torch.randn(64, 1, 8, 8)
labels = (images.mean((1, 2, 3)) > 0).long()
model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
    nn.Linear(288, 16), nn.LayerNorm(16), nn.Linear(16, 2),
)  # fmt: skip
model = ModuleValidator.fix(model)
print(type(model[1]).__name__, len(ModuleValidator.validate(model, strict=False)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
loader = DataLoader(TensorDataset(images, labels), batch_size=16)
engine = PrivacyEngine(accountant="rdp")
model, optimizer, loader = engine.make_private(
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=0.8, max_grad_norm=1.0
)
for epoch in range(3):
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        norms = torch.stack([p.grad_sample.flatten(1).norm(dim=1) for p in model.parameters()]).norm(dim=0)
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f} norm {norms.mean().item():.4f}", end=" ")
    print(f"epsilon {engine.get_epsilon(1e-5):.4f}")
