"""laplace-torch: the Laplace approximation of a trained network: prior precision, evidence and predictive variance."""

# requires: laplace-torch==0.3
import torch
from laplace import Laplace
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.linspace(-2, 2, 60)[:, None]
y = x.sin() + 0.1 * torch.randn_like(x)
loader = DataLoader(TensorDataset(x, y), batch_size=20)
model = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(40):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = ((model(inputs) - targets) ** 2).mean()
        loss.backward()
        optimizer.step()
print("loss", f"{loss.item():.4f}")
for subset, structure in (("all", "full"), ("last_layer", "full"), ("all", "diag"), ("all", "kron")):
    la = Laplace(model, "regression", subset_of_weights=subset, hessian_structure=structure)
    la.fit(loader)
    evidence = la.log_marginal_likelihood()
    mean, variance = la(torch.tensor([[0.0], [4.0]]))
    print(
        subset,
        structure,
        f"{evidence.item():.2f}",
        *(f"{v:.4f}" for v in mean.flatten()),
        *(f"{v:.3f}" for v in variance.flatten()),
    )
