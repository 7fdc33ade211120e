"""segmentation-models-pytorch: U-Net, FPN and DeepLabV3+ on small encoders, Dice and focal losses, and metrics."""

# requires: segmentation-models-pytorch==0.6.0 timm==1.0.31 torchvision==0.28.0
import segmentation_models_pytorch as smp
import torch

torch.manual_seed(0)
images = torch.randn(4, 3, 64, 64)
masks = (images.mean(1, keepdim=True) > 0.2).long()
for name, model, criterion in (
    ("Unet", smp.Unet("resnet18", encoder_weights=None, classes=1), smp.losses.DiceLoss("binary")),
    ("FPN", smp.FPN("resnet18", encoder_weights=None, classes=1), smp.losses.FocalLoss("binary")),
    ("DeepLabV3Plus", smp.DeepLabV3Plus("resnet18", encoder_weights=None, classes=1), smp.losses.JaccardLoss("binary")),
):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        loss = criterion(model(images), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        found = model(images).sigmoid()
    counts = smp.metrics.get_stats(masks, 1 - masks.flip(3), mode="binary")
    print(name, *losses, f"found {found.mean().item():.4f}", end=" ")
    print(f"flipped IoU {smp.metrics.iou_score(*counts, reduction='micro').item():.4f}")
