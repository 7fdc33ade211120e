"""geomloss: Sinkhorn divergences and kernel norms between clouds of points, which move towards each other."""

# requires: geomloss==0.3.1
import torch
from geomloss import SamplesLoss

torch.manual_seed(0)
target = torch.randn(40, 2, dtype=torch.float64) + 1
for kind, blur in (("sinkhorn", 0.1), ("gaussian", 0.5), ("energy", 0.5), ("laplacian", 0.5)):
    points = torch.randn(30, 2, dtype=torch.float64, requires_grad=True)
    distance = SamplesLoss(kind, p=2, blur=blur, backend="tensorized")
    values = []
    for _ in range(3):
        loss = distance(points, target)
        (grad,) = torch.autograd.grad(loss, points)
        points = (points - 5 * grad).detach().requires_grad_()
        values.append(f"{loss.item():.4f}")
    print(kind, *values)
