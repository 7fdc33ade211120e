"""Models of timm with its optimizers, schedule, loss and Mixup: three steps each."""

# requires: timm==1.0.31 torchvision==0.28.0
import numpy as np
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

torch.manual_seed(0)
np.random.seed(0)  # noqa: NPY002 - Mixup draws from it
images = torch.randn(4, 3, 64, 64)
images, targets = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=5)(images, torch.tensor([0, 3, 1, 4]))
for name, options in {
    "resnet10t": {},
    "vit_tiny_patch16_224": {"img_size": 64, "depth": 2},
    "mobilenetv3_small_050": {},
    "efficientvit_m0": {"img_size": 64},
    "convnext_atto": {},
    "resmlp_12_224": {"img_size": 64},
}.items():
    model = timm.create_model(name, num_classes=5, **options)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=1e-2, momentum=0.9)
    schedule = CosineLRScheduler(optimizer, t_initial=3, warmup_t=1, warmup_lr_init=1e-4)
    losses = []
    for step in range(3):
        schedule.step(step)
        loss = SoftTargetCrossEntropy()(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses)
