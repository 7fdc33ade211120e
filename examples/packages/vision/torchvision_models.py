"""ResNet-18, MobileNetV3 and a vision transformer of torchvision: two SGD steps each, then evaluation."""

# requires: torchvision==0.28.0
import torch
from torch.nn import functional as F
from torchvision import models

torch.manual_seed(0)
images = torch.rand(4, 3, 64, 64)
labels = torch.tensor([1, 4, 7, 2])
networks = {
    "resnet18": models.resnet18(num_classes=10),
    "mobilenet_v3_small": models.mobilenet_v3_small(num_classes=10),
    "vit": models.VisionTransformer(64, 16, 2, 4, 64, 128, num_classes=10),
}
for name, network in networks.items():
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    network.eval()
    with torch.no_grad():
        losses.append(f"{F.cross_entropy(network(images), labels).item():.4f}")
    print(name, *losses)
