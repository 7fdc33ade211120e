"""higher: model-agnostic meta-learning: gradients through the steps of an inner optimizer."""

# requires: higher==0.2.1
import higher
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta = torch.optim.Adam(net.parameters(), lr=0.01)
for _step in range(4):
    meta.zero_grad()
    total = 0.0
    for task in range(3):
        x = torch.rand(10, 1) * 4 - 2
        y = torch.sin(x + task)
        inner = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        with higher.innerloop_ctx(net, inner, copy_initial_weights=False) as (fnet, diffopt):
            for _ in range(3):
                diffopt.step(((fnet(x) - y) ** 2).mean())
            loss = ((fnet(x) - y) ** 2).mean()
            loss.backward()
            total += loss.item()
    meta.step()
    print(f"{total:.4f} {sum(p.grad.norm().item() for p in net.parameters()):.4f}")
