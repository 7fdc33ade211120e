"""torchdiffeq: rates of a predator-prey system, found through its solution by backpropagation and by adjoints."""

# requires: torchdiffeq==0.2.5
import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Prey(torch.nn.Module):
    """Lotka and Volterra's equations, with the logarithms of their four rates as parameters."""

    def __init__(self, rates):
        super().__init__()
        self.logs = torch.nn.Parameter(torch.tensor(rates).log())

    def forward(self, t, state):
        a, b, c, d = self.logs.exp()
        prey, predators = state
        return torch.stack([a * prey - b * prey * predators, c * prey * predators - d * predators])


start, times = torch.tensor([1.0, 0.5]), torch.linspace(0, 6, 25)
with torch.no_grad():
    data = odeint(Prey([1.1, 0.8, 0.6, 0.9]), start, times, method="dopri5")
for name, solve in {"backpropagation": odeint, "adjoint": odeint_adjoint}.items():
    model = Prey([0.9, 0.7, 0.7, 0.7])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(12):
        optimizer.zero_grad()
        loss = (solve(model, start, times, rtol=1e-6, atol=1e-8) - data).square().mean()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            print(f"{name} step {step + 1}: loss {loss.item():.6f}")
    print(*(f"{rate:.5f}" for rate in model.logs.exp().tolist()))
for method in ("euler", "rk4", "bosh3", "dopri8", "midpoint"):
    with torch.no_grad():
        print(method, *(f"{value:.6f}" for value in odeint(model, start, times, method=method)[-1].tolist()))
moment, state = odeint_event(
    model, start, torch.tensor(0.0), event_fn=lambda t, y: y[1] - 1.0, odeint_interface=odeint, rtol=1e-8, atol=1e-8
)
print(f"as many predators at {moment.item():.5f}, prey {state[-1, 0].item():.5f}")
