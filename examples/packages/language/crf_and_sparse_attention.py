"""entmax and pytorch-crf: sparse alternatives of softmax with their losses, and a conditional random field of tags."""

# requires: entmax==1.3 pytorch-crf==0.7.2
import torch
from entmax import Entmax15Loss, SparsemaxLoss, entmax15, entmax_bisect, sparsemax
from torchcrf import CRF

torch.manual_seed(0)
x = torch.randn(4, 7, requires_grad=True)
for name, function in (("sparsemax", sparsemax), ("entmax15", entmax15), ("entmax 1.3", entmax_bisect)):
    weights = function(x, 1.3, dim=-1) if function is entmax_bisect else function(x, dim=-1)
    (grad,) = torch.autograd.grad(weights.square().sum(), x)
    print(name, *(f"{value:.4f}" for value in weights[0].tolist()), f"{grad.abs().sum().item():.4f}")
for criterion in (SparsemaxLoss(), Entmax15Loss()):
    loss = criterion(x, torch.tensor([0, 3, 2, 6]))
    (grad,) = torch.autograd.grad(loss, x)
    print(type(criterion).__name__, f"{loss.item():.4f} {grad.abs().sum().item():.4f}")

crf, emissions = CRF(5, batch_first=True), torch.nn.Linear(6, 5)
words, tags = torch.randn(3, 9, 6), torch.randint(5, (3, 9))
mask = torch.arange(9) < torch.tensor([[9], [7], [4]])
optimizer = torch.optim.Adam([*crf.parameters(), *emissions.parameters()], lr=0.05)
for _ in range(5):
    loss = -crf(emissions(words), tags, mask=mask, reduction="mean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
print(crf.decode(emissions(words), mask=mask))
