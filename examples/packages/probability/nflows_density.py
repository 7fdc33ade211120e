"""nflows: coupling and autoregressive spline flows, with batch normalisation and permutations, learn a ring."""

# requires: nflows==0.14
import torch
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.nn.nets import ResidualNet
from nflows.transforms.autoregressive import MaskedPiecewiseRationalQuadraticAutoregressiveTransform as Spline
from nflows.transforms.base import CompositeTransform
from nflows.transforms.coupling import AffineCouplingTransform
from nflows.transforms.lu import LULinear
from nflows.transforms.permutations import RandomPermutation

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
angle = 6.2832 * torch.rand(128)
ring = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(128, 2)
coupling = [
    AffineCouplingTransform([1, -1], lambda i, o: ResidualNet(i, o, hidden_features=16, num_blocks=1)), LULinear(2),
    AffineCouplingTransform([-1, 1], lambda i, o: ResidualNet(i, o, hidden_features=16, num_blocks=1)),
]  # fmt: skip
spline = [Spline(2, 16, num_bins=6, tails="linear", tail_bound=3.0), RandomPermutation(2)]
spline.append(Spline(2, 16, num_bins=6, tails="linear", tail_bound=3.0))
for name, transforms in {"coupling": coupling, "spline": spline}.items():
    flow = Flow(CompositeTransform(transforms), StandardNormal([2]))
    optimizer = torch.optim.Adam(flow.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        loss = -flow.log_prob(ring).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        drawn = flow.sample(64)
    print(f"{name}: losses {losses[0]:.5f} {losses[-1]:.5f} radius {drawn.norm(dim=1).mean().item():.5f}")
