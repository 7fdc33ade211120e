"""pytorch-optimizer: fifteen optimizers that PyTorch does not have, six steps each."""

# requires: pytorch-optimizer==4.1.0
import torch
from pytorch_optimizer import create_optimizer, load_optimizer

torch.manual_seed(0)
x = torch.randn(32, 6)
y = x.prod(1, keepdim=True).tanh()
for name in (
    "adabelief", "adabound", "adan", "adamp", "came", "diffgrad", "lamb", "lion", "madgrad", "novograd", "prodigy",
    "radam", "ranger", "sophiah", "tiger",
):  # fmt: skip
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = load_optimizer(name)(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(6):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward(create_graph=name == "sophiah")
        optimizer.step()
        losses.append(loss.item())
    print(name, f"{losses[1]:.5f} {losses[-1]:.5f}")
wrapped = create_optimizer(model, "adamw", lr=1e-2, use_lookahead=True)
torch.nn.functional.mse_loss(model(x), y).backward()
wrapped.step()
print(type(wrapped).__name__, f"{sum(p.sum().item() for p in model.parameters()):.5f}")
