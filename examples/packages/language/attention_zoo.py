"""Performers, rotary positions and transformers for tables, trained by Lion."""

# requires: performer-pytorch==1.1.4 rotary-embedding-torch==0.9.1 lion-pytorch==0.2.5 tab-transformer-pytorch==0.6.1
import torch
from lion_pytorch import Lion
from performer_pytorch import PerformerLM
from rotary_embedding_torch import RotaryEmbedding
from tab_transformer_pytorch import FTTransformer, TabTransformer

torch.manual_seed(0)
tokens = torch.randint(0, 32, (2, 33))
for name, model in {
    "performer": PerformerLM(num_tokens=32, max_seq_len=32, dim=16, depth=1, heads=2, causal=True, dim_head=8),
}.items():
    optimizer = Lion(model.parameters(), lr=1e-3)
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(name, f"{loss.item():.4f}")
rotary = RotaryEmbedding(dim=8)
q = rotary.rotate_queries_or_keys(torch.randn(1, 2, 10, 16))
print(f"{q.norm().item():.4f} {q[0, 1, 5, 3].item():.4f}")
categories, numbers = torch.randint(0, 3, (4, 3)), torch.randn(4, 5)
for kind in (TabTransformer, FTTransformer):
    extra = {"mlp_act": torch.nn.ReLU()} if kind is TabTransformer else {}
    table = kind(categories=(3, 3, 3), num_continuous=5, dim=16, depth=1, heads=2, dim_out=1, **extra)
    loss = table(categories, numbers).pow(2).mean()
    loss.backward()
    print(
        kind.__name__,
        f"{loss.item():.4f} {sum(p.grad.norm().item() for p in table.parameters() if p.grad is not None):.4f}",
    )
