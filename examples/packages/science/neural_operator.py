"""neuraloperator: Fourier neural operators learn to integrate functions, with Sobolev losses."""

# requires: neuraloperator==2.0.0
import torch
from neuralop.losses import H1Loss, LpLoss
from neuralop.models import FNO, TFNO

torch.manual_seed(0)
grid = torch.linspace(0, 1, 33)[:-1]
waves = torch.randn(8, 4, 1) * torch.sin(2 * torch.pi * torch.arange(1, 5)[:, None] * grid)
x = waves.sum(1, keepdim=True)
y = x.cumsum(-1) / 32
for name, model in {
    "FNO": FNO(n_modes=(8,), in_channels=1, out_channels=1, hidden_channels=12, n_layers=2),
    "TFNO": TFNO(n_modes=(8,), in_channels=1, out_channels=1, hidden_channels=12, n_layers=2, rank=0.5),
}.items():
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(5):
        loss = LpLoss(d=1)(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses, f"H1 {H1Loss(d=1)(model(x), y).item():.4f}")
