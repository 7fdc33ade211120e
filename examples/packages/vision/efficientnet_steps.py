"""efficientnet-pytorch: B0 and B1 with drop-connect, two steps each."""

# requires: efficientnet-pytorch==0.7.1
import torch
from efficientnet_pytorch import EfficientNet
from torch.nn import functional as F

torch.manual_seed(0)
images, labels = torch.randn(4, 3, 64, 64), torch.tensor([1, 0, 3, 2])
for name, options in (("efficientnet-b0", {}), ("efficientnet-b1", {"dropout_rate": 0.5})):
    model = EfficientNet.from_name(name, num_classes=4, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    losses = []
    for _ in range(2):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        features = model.extract_features(images)
    print(name, *losses, f"features {features.std().item():.4f}")
