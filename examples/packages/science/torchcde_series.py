"""torchcde: a neural controlled differential equation tells the direction of irregular spirals."""

# requires: torchcde==0.2.5
import torch
import torchcde

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
time = torch.linspace(0, 1, 12)
sign = torch.where(torch.arange(16) % 2 == 0, 1.0, -1.0)
angle = 6 * time + torch.rand(16, 1)
series = torch.stack([time.expand(16, -1), angle.cos(), sign[:, None] * angle.sin()], -1)
series[torch.rand(16, 12) < 0.2, 1:] = float("nan")


class Field(torch.nn.Module):
    """Vector field of the hidden state, one for each channel."""

    def __init__(self):
        super().__init__()
        layers = (torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 24), torch.nn.Tanh())
        self.net = torch.nn.Sequential(*layers)

    def forward(self, t, z):
        return self.net(z).view(*z.shape[:-1], 8, 3)


initial, field, readout = torch.nn.Linear(3, 8), Field(), torch.nn.Linear(8, 1)
parameters = [p for module in (initial, field, readout) for p in module.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
paths = {
    "spline": torchcde.CubicSpline(torchcde.natural_cubic_coeffs(series)),
    "Hermite": torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(series)),
    "linear": torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(series)),
}
for name, path in paths.items():
    losses = []
    for _ in range(3):
        start = initial(path.evaluate(path.interval[0]))
        end = torchcde.cdeint(path, field, start, path.interval, method="rk4", options={"step_size": 0.2})[:, -1]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(readout(end).squeeze(-1), (sign > 0).double())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.6f}")
    print(name, *losses)
