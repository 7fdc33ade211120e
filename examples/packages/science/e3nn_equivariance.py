"""e3nn: tensor products and spherical harmonics learn a function of vectors that turns with them."""

# requires: e3nn==0.6.0
import torch
from e3nn import o3
from e3nn.nn import FullyConnectedNet, Gate

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
points = torch.randn(24, 3)
target = torch.linalg.cross(points, points.roll(1, 0)).mean(0)


class Network(torch.nn.Module):
    """Messages between all pairs of points: a tensor product with weights from the distance, then a gate."""

    def __init__(self):
        super().__init__()
        self.gate = Gate("4x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1e")
        self.product = o3.FullyConnectedTensorProduct("1x1o", "1x0e+1x1o", self.gate.irreps_in, shared_weights=False)
        self.weights = FullyConnectedNet([4, 16, self.product.weight_numel], torch.nn.functional.silu)
        self.out = o3.Linear(self.gate.irreps_out, "1x1e")

    def forward(self, x):
        edges = x[:, None] - x[None]
        length = edges.norm(dim=-1, keepdim=True)
        features = torch.cat([(-(length - r) ** 2).exp() for r in (0.5, 1.0, 1.5, 2.0)], -1)
        harmonics = o3.spherical_harmonics("1x0e+1x1o", edges, normalize=True)
        messages = self.product(x[:, None].expand_as(edges), harmonics, self.weights(features))
        return self.out(self.gate(messages.mean(1))).mean(0)


model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(6):
    loss = (model(points) - target).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}: loss {loss.item():.6f}")
turn = o3.rand_matrix()
error = (model(points @ turn.T) - turn @ model(points)).abs().max().item()
print(f"turned: {model(points @ turn.T).sum().item():.6f}, equivariant: {error < 1e-9}")
