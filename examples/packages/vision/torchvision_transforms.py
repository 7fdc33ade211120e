"""Transforms of torchvision, version 2, on images, boxes and masks, and a CNN trained on what they make."""

# requires: torchvision==0.28.0
import torch
from torch import nn
from torchvision import tv_tensors
from torchvision.transforms import v2

torch.manual_seed(0)
image = tv_tensors.Image(torch.randint(0, 256, (3, 48, 48), dtype=torch.uint8))
boxes = tv_tensors.BoundingBoxes([[4, 4, 20, 30], [10, 8, 40, 44]], format="XYXY", canvas_size=(48, 48))
mask = tv_tensors.Mask(torch.randint(0, 2, (48, 48), dtype=torch.uint8))

augment = v2.Compose([
    v2.RandomResizedCrop(32, scale=(0.6, 1.0), antialias=True),
    v2.RandomHorizontalFlip(0.5),
    v2.ColorJitter(0.3, 0.3, 0.3, 0.1),
    v2.RandomAffine(15, translate=(0.1, 0.1)),
    v2.GaussianBlur(3),
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize([0.5, 0.5, 0.5], [0.25, 0.25, 0.25]),
])
batch = []
for _ in range(4):
    pixels, found, area = augment(image, boxes, mask)
    batch.append(pixels)
    print(f"mean {pixels.mean().item():.4f} boxes {found.sum().item()} mask {area.sum().item()}")

classic = v2.Compose([v2.RandomRotation(20), v2.RandomPerspective(p=1.0), v2.RandomErasing(p=1.0), v2.Grayscale(3)])
pixels = classic(v2.functional.to_dtype(image, torch.float32, scale=True))
print(f"classic {pixels.mean().item():.4f}")

features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
network = nn.Sequential(features, nn.Flatten(), nn.Linear(128, 2))
mixed, targets = v2.MixUp(num_classes=2)(torch.stack(batch), torch.tensor([0, 1, 0, 1]))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
for _ in range(3):
    loss = nn.functional.cross_entropy(network(mixed), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
