"""vit-pytorch: five vision transformers, three steps each."""

# requires: vit-pytorch==1.26.11
import torch
from torch.nn import functional as F
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cct import CCT
from vit_pytorch.levit import LeViT
from vit_pytorch.vit_with_patch_merger import ViT as Merger

torch.manual_seed(0)
images, labels = torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, 1])
size = {"image_size": 32, "patch_size": 8, "num_classes": 3, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}
models = {
    "ViT": ViT(**size, dropout=0.1),
    "simple": SimpleViT(**size),
    "merger": Merger(**size, patch_merge_layer=1, patch_merge_num_tokens=4),
    "compact": CCT(
        img_size=32, embedding_dim=32, n_conv_layers=1, num_layers=2, num_heads=2, mlp_ratio=2, num_classes=3,
        positional_embedding="learnable",
    ),
    "LeViT": LeViT(
        image_size=32, num_classes=3, stages=1, dim=32, depth=1, heads=2, mlp_mult=2, dropout=0.0
    ),
}  # fmt: skip
for name, model in models.items():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for _ in range(3):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses)
