"""POT: optimal transport between point clouds on tensors: exact, entropic and sliced distances with gradients."""

# requires: pot==0.9.7.post1
import ot
import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.randn(20, 2, requires_grad=True)
y = torch.randn(30, 2) + 1
a, b = torch.full((20,), 1 / 20), torch.full((30,), 1 / 30)
for name, distance in {
    "exact": lambda: ot.emd2(a, b, ot.dist(x, y)),
    "sinkhorn": lambda: ot.sinkhorn2(a, b, ot.dist(x, y), reg=1.0),
    "sliced": lambda: ot.sliced_wasserstein_distance(x, y, n_projections=20, seed=0),
    "unbalanced": lambda: ot.unbalanced.sinkhorn_unbalanced2(a, b, ot.dist(x, y), 1.0, 1.0),
    "gromov": lambda: ot.gromov.gromov_wasserstein2(ot.dist(x, x), ot.dist(y, y), a, b),
}.items():
    optimizer = torch.optim.SGD([x], lr=0.5)
    for _ in range(2):
        loss = distance()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(name, f"{loss.item():.4f} {x.grad.norm().item():.4f}")
