"""ncps: liquid time-constant and closed-form continuous-time networks with sparse wirings follow a sine."""

# requires: ncps==1.0.1
import torch
from ncps.torch import LTC, CfC
from ncps.wirings import AutoNCP

torch.manual_seed(0)
times = torch.linspace(0, 6, 24)
x = torch.stack([times.sin(), times.cos()], -1)[None]
y = (2 * times).sin()[None, :, None]
for kind in (CfC, LTC):
    model = kind(2, AutoNCP(10, 1), batch_first=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(6):
        loss = (model(x)[0] - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(kind.__name__, *losses)
