"""pytorch-metric-learning: triplets, ArcFace and other losses with miners."""

# requires: pytorch-metric-learning==2.9.0
import torch
from pytorch_metric_learning import losses, miners
from torch import nn

torch.manual_seed(0)
labels = torch.arange(48) % 4
x = torch.randn(48, 10) + 1.5 * nn.functional.one_hot(labels, 10)
for name, criterion, miner in (
    ("triplet", losses.TripletMarginLoss(0.2), miners.TripletMarginMiner(0.2, type_of_triplets="semihard")),
    ("contrastive", losses.ContrastiveLoss(), miners.PairMarginMiner()),
    ("multi-similarity", losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner()),
    ("NT-Xent", losses.NTXentLoss(0.2), None),
    ("ArcFace", losses.ArcFaceLoss(4, 8), None),
    ("proxy anchor", losses.ProxyAnchorLoss(4, 8), None),
    ("supervised contrast", losses.SupConLoss(), None),
):
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))
    optimizer = torch.optim.Adam([*model.parameters(), *criterion.parameters()], lr=0.01)
    values = []
    for _ in range(4):
        embedded = model(x)
        loss = criterion(embedded, labels, miner(embedded, labels) if miner else None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(f"{loss.item():.4f}")
    print(name, *values)
