"""vector-quantize-pytorch: an autoencoder of sequences with five kinds of quantisers."""

# requires: vector-quantize-pytorch==1.32.0
import torch
from torch import nn
from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, SimVQ, VectorQuantize

torch.manual_seed(0)
x = torch.randn(4, 20, 16)
for name, quantiser, width in (
    ("VQ", VectorQuantize(dim=8, codebook_size=32, decay=0.8, commitment_weight=1.0), 8),
    ("residual", ResidualVQ(dim=8, codebook_size=16, num_quantizers=3), 8),
    ("SimVQ", SimVQ(dim=8, codebook_size=32), 8),
    ("FSQ", FSQ(levels=[8, 5, 5]), 3),
    ("LFQ", LFQ(codebook_size=64, dim=6, entropy_loss_weight=0.1), 6),
):
    encoder, decoder = nn.Linear(16, width), nn.Linear(width, 16)
    parameters = [p for module in (encoder, decoder, quantiser) for p in module.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    losses = []
    for _ in range(4):
        quantised, codes, *rest = quantiser(encoder(x))
        loss = (decoder(quantised) - x).square().mean() + (rest[0].sum() if rest else 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses, "codes", codes.unique().numel())
