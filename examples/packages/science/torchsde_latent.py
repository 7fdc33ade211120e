"""torchsde: a neural stochastic differential equation is fitted to a mean and a variance, through its solver."""

# requires: torchsde==0.2.6
import torch
import torchsde
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Equation(nn.Module):
    """Drift by a small network, diagonal noise by a parameter."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1))
        self.scale = nn.Parameter(torch.tensor(0.2))

    def f(self, t, y):
        return self.drift(torch.cat([y, t.expand(len(y), 1)], 1))

    def g(self, t, y):
        return self.scale.abs().expand_as(y)


equation, times = Equation(), torch.linspace(0, 1, 5)
optimizer = torch.optim.Adam(equation.parameters(), lr=0.02)
for step in range(10):
    motion = torchsde.BrownianInterval(
        0.0, 1.0, size=(64, 1), entropy=step, dtype=torch.float64, levy_area_approximation="space-time"
    )
    paths = torchsde.sdeint(equation, torch.zeros(64, 1), times, dt=0.1, bm=motion, method="srk")
    loss = (paths.mean(1).squeeze() - times.sin()).square().sum() + (paths[-1].std() - 0.5).square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        print(f"step {step + 1}: loss {loss.item():.6f} scale {equation.scale.item():.6f}")

optimizer.zero_grad()
motion = torchsde.BrownianInterval(0.0, 1.0, size=(16, 1), entropy=9, dtype=torch.float64)
end = torchsde.sdeint(equation, torch.zeros(16, 1), times[[0, -1]], dt=0.1, bm=motion, method="euler")[-1]
end.square().mean().backward()
print(f"end {end.mean().item():.6f} gradient {equation.scale.grad.item():.6f}")
