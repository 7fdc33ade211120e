"""torchopt: differentiable optimizers: a learned loss weight through three inner steps, and functional Adam."""

# requires: torchopt==0.7.3
import torch
import torchopt
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(32, 4), torch.randn(32, 1)
net = nn.Linear(4, 1)
meta = nn.Parameter(torch.tensor(1.0))
inner = torchopt.MetaSGD(net, lr=0.1)
outer = torchopt.Adam([meta], lr=0.05)
state, optim_state = torchopt.extract_state_dict(net), torchopt.extract_state_dict(inner)
for _ in range(3):
    for _ in range(3):
        inner.step(meta * ((net(x) - y) ** 2).mean())
    loss = ((net(x) - y) ** 2).mean()
    outer.zero_grad()
    loss.backward()
    outer.step()
    torchopt.recover_state_dict(net, state)
    torchopt.recover_state_dict(inner, optim_state)
    print(f"{loss.item():.4f} {meta.item():.4f}")
params = tuple(p.detach().clone().requires_grad_() for p in net.parameters())
optimizer = torchopt.adam(lr=0.1)
states = optimizer.init(params)
for _ in range(3):
    loss = ((x @ params[0].T + params[1] - y) ** 2).mean()
    grads = torch.autograd.grad(loss, params)
    updates, states = optimizer.update(grads, states, inplace=False)
    params = torchopt.apply_updates(params, updates, inplace=False)
    print(f"{loss.item():.4f}")
