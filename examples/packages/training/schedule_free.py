"""schedulefree: AdamW and SGD without a schedule, in training and evaluation mode."""

# requires: schedulefree==1.4.1
import schedulefree
import torch

torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x[:, :2].sum(1) > 0).float()
for kind in (schedulefree.AdamWScheduleFree, schedulefree.SGDScheduleFree, schedulefree.RAdamScheduleFree):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = kind(model.parameters(), lr=0.02)
    losses = []
    for _ in range(12):
        optimizer.train()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    optimizer.eval()
    with torch.no_grad():
        averaged = torch.nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
    print(f"{kind.__name__}: loss {loss.item():.5f} averaged {averaged.item():.5f}")
