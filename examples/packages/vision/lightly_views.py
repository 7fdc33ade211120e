"""lightly: SimCLR, Barlow Twins and BYOL learn from two views of small images."""

# requires: lightly==1.6.0 torchvision==0.28.0
import copy

import torch
from lightly.loss import BarlowTwinsLoss, NegativeCosineSimilarity, NTXentLoss
from lightly.models.modules import BYOLPredictionHead, BYOLProjectionHead, SimCLRProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
images = torch.rand(16, 3, 16, 16)


def make_backbone() -> nn.Sequential:
    """Return a small network of convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


def draw_views() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images, and their mirror images, with noise."""
    return images + 0.1 * torch.randn_like(images), images.flip(-1) + 0.1 * torch.randn_like(images)


for name, criterion in (("SimCLR", NTXentLoss(temperature=0.5)), ("Barlow Twins", BarlowTwinsLoss())):
    model = nn.Sequential(make_backbone(), SimCLRProjectionHead(16, 32, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(4):
        a, b = draw_views()
        loss = criterion(model(a), model(b))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses)

backbone, projection, prediction = make_backbone(), BYOLProjectionHead(16, 32, 16), BYOLPredictionHead(16, 32, 16)
target, target_projection = copy.deepcopy(backbone), copy.deepcopy(projection)
for part in (target, target_projection):
    deactivate_requires_grad(part)
learned = [*backbone.parameters(), *projection.parameters(), *prediction.parameters()]
optimizer = torch.optim.SGD(learned, lr=0.06)
criterion = NegativeCosineSimilarity()
losses = []
for _ in range(4):
    update_momentum(backbone, target, m=0.9)
    update_momentum(projection, target_projection, m=0.9)
    a, b = draw_views()
    guesses = [prediction(projection(backbone(x))) for x in (a, b)]
    wanted = [target_projection(target(x)).detach() for x in (b, a)]
    loss = 0.5 * sum(criterion(x, y) for x, y in zip(guesses, wanted, strict=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(f"{loss.item():.4f}")
print("BYOL", *losses)
