"""MONAI: transforms of a volume, a 3-d U-Net with Dice loss, sliding windows and metrics."""

# requires: monai==1.6.1 scipy==1.17.1
import numpy as np
import torch
from monai.data import create_test_image_3d
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.metrics import DiceMetric, HausdorffDistanceMetric
from monai.networks.nets import UNet
from monai.transforms import AsDiscrete, Compose, EnsureChannelFirstd, RandFlipd, RandRotate90d, ScaleIntensityd
from monai.utils import set_determinism

set_determinism(0)
transform = Compose([
    EnsureChannelFirstd(["image", "label"], channel_dim="no_channel"),
    ScaleIntensityd("image"),
    RandFlipd(["image", "label"], prob=0.5, spatial_axis=0),
    RandRotate90d(["image", "label"], prob=0.5),
])
transform.set_random_state(0)
volumes = []
for seed in range(2):
    image, label = create_test_image_3d(24, 24, 24, 3, 6, random_state=np.random.RandomState(seed))
    volumes.append(transform({"image": image, "label": label}))
images = torch.stack([volume["image"].as_tensor() for volume in volumes])
labels = (torch.stack([volume["label"].as_tensor() for volume in volumes]) > 0).float()
print(f"images {images.mean().item():.5f} labels {labels.sum().item():.0f}")

network = UNet(spatial_dims=3, in_channels=1, out_channels=1, channels=(4, 8, 16), strides=(2, 2), num_res_units=1)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
criterion = DiceCELoss(sigmoid=True)
for step in range(4):
    optimizer.zero_grad()
    loss = criterion(network(images), labels)
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}: loss {loss.item():.4f}")

network.eval()
with torch.no_grad():
    predicted = sliding_window_inference(images, (16, 16, 16), 2, network, overlap=0.25)
found = AsDiscrete(threshold=0.5)(predicted.sigmoid())
print(f"Dice {DiceMetric()(found, labels).mean().item():.4f} logits {predicted.mean().item():.4f}")
print(f"Hausdorff {HausdorffDistanceMetric()(found, labels).mean().item():.4f}")
