"""einops: attention, patches and pooling by `rearrange`, `einsum` and layers: three steps."""

# requires: einops==0.8.2
import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    """Self-attention of four heads."""

    def __init__(self, width):
        super().__init__()
        self.project = EinMix("b n d -> b n (k e)", weight_shape="d k e", d=width, k=3, e=width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = rearrange(self.project(x), "b n (k h e) -> k b h n e", k=3, h=4)
        weights = (einsum(q, k, "b h i e, b h j e -> b h i j") * q.shape[-1] ** -0.5).softmax(-1)
        return self.out(rearrange(einsum(weights, v, "b h i j, b h j e -> b h i e"), "b h n e -> b n (h e)"))


model = nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4),
    nn.Linear(48, 32),
    Attention(32),
    Reduce("b n d -> b d", "mean"),
    nn.Linear(32, 3),
)
images = torch.randn(6, 3, 16, 16)
labels = repeat(torch.arange(3), "k -> (k r)", r=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
for step in range(5):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}: loss {loss.item():.5f}")
packed, shapes = pack([torch.ones(2, 3, 4), torch.zeros(2, 5, 4)], "b * d")
pooled = reduce(images, "b c (h 2) (w 2) -> c", "max")
print(f"pooled {pooled.sum().item():.5f} parts {len(unpack(packed, shapes, 'b * d'))}")
