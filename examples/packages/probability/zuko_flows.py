"""zuko: spline, autoregressive and continuous flows learn two moons."""

# requires: zuko==1.6.0
import torch
import zuko

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
angle = torch.rand(128) * torch.pi
upper = torch.arange(128) % 2 == 0
moons = torch.stack([
    torch.where(upper, angle.cos(), 1 - angle.cos()), torch.where(upper, angle.sin(), 0.5 - angle.sin()),
], 1)  # fmt: skip
moons = moons + 0.05 * torch.randn_like(moons)
for name, flow in {
    "MAF": zuko.flows.MAF(2, transforms=2, hidden_features=(16, 16)),
    "NSF": zuko.flows.NSF(2, transforms=2, bins=5, hidden_features=(16, 16)),
    "NICE": zuko.flows.NICE(2, transforms=3, hidden_features=(16,)),
    "Gaussian mixture": zuko.flows.GMM(2, components=4),
    "CNF": zuko.flows.CNF(2, hidden_features=(8,)),
}.items():
    optimizer = torch.optim.Adam(flow.parameters(), lr=0.01)
    losses = []
    for _ in range(3 if name == "CNF" else 9):
        loss = -flow().log_prob(moons).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    drawn = flow().sample((32,))
    print(f"{name}: losses {losses[0]:.4f} {losses[-1]:.4f} drawn {drawn.mean().item():.4f} {drawn.std().item():.4f}")
