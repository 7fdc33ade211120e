"""pytorch-msssim, torchinfo, torch-ema, entmax: small libraries in one training loop."""

# requires: pytorch-msssim==1.0.0 torchinfo==1.8.0 torch-ema==0.3 entmax==1.3
import torch
from entmax import Entmax15Loss, entmax15, entmax_bisect, sparsemax
from pytorch_msssim import MS_SSIM, SSIM, ssim
from torch import nn
from torch_ema import ExponentialMovingAverage
from torchinfo import summary

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1), nn.Sigmoid())
told = summary(model, (2, 3, 32, 32), verbose=0)
print(told.total_params, told.total_mult_adds)
images = torch.rand(2, 3, 32, 32)
average = ExponentialMovingAverage(model.parameters(), decay=0.9)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = SSIM(data_range=1.0)
for _ in range(4):
    loss = 1 - criterion(model(images), images)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update()
    print(f"{loss.item():.4f}")
with average.average_parameters():
    print(f"{ssim(model(images), images, data_range=1.0).item():.4f}")
big = torch.rand(1, 1, 192, 192)
print(f"{MS_SSIM(data_range=1.0, channel=1)(big, (big + 0.05).clamp(0, 1)).item():.4f}")
scores = torch.randn(4, 6, requires_grad=True)
for function in (sparsemax, entmax15, lambda s: entmax_bisect(s, alpha=1.3)):
    p = function(scores)
    (p * torch.arange(6.0)).sum().backward()
    print(int((p > 0).sum()), f"{scores.grad.norm().item():.4f}")
print(f"{Entmax15Loss()(scores, torch.tensor([0, 1, 2, 3])).item():.4f}")
