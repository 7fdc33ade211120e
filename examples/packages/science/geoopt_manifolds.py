"""geoopt: optimizers on the Stiefel manifold, the sphere and the Poincaré ball."""

# requires: geoopt==0.5.1
import geoopt
import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
matrix = torch.randn(8, 8)
matrix = matrix + matrix.T
for name, optimize in {"RAdam": geoopt.optim.RiemannianAdam, "RSGD": geoopt.optim.RiemannianSGD}.items():
    basis = geoopt.ManifoldParameter(torch.linalg.qr(torch.randn(8, 3))[0], manifold=geoopt.Stiefel())
    direction = geoopt.ManifoldParameter(torch.nn.functional.normalize(torch.randn(8), dim=0), manifold=geoopt.Sphere())
    optimizer = optimize([basis, direction], lr=0.05)
    for step in range(20):
        loss = -(basis.T @ matrix @ basis).trace() - direction @ matrix @ direction
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"{name} step {step + 1}: loss {loss.item():.6f}")
print(f"largest eigenvalue {torch.linalg.eigvalsh(matrix)[-1].item():.6f}")

ball = geoopt.PoincareBall(c=1.0)
points = geoopt.ManifoldParameter(ball.random_normal(6, 2, std=0.3), manifold=ball)
edges = torch.tensor([[0, 1], [0, 2], [1, 3], [1, 4], [2, 5]])
optimizer = geoopt.optim.RiemannianAdam([points], lr=0.05)
for step in range(20):
    distances = ball.dist(points[:, None], points[None])
    loss = distances[edges[:, 0], edges[:, 1]].sum() - torch.log(distances + 1).mean() * 4
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"tree step {step + 1}: loss {loss.item():.6f}")
