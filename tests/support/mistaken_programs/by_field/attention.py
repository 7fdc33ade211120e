"""Mistakes in scores before a softmax, and in views of heads and channels."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

SCORE_MISTAKES = [
    Mistake(
        "scores multiplied by the root of the width",
        "scores-scaled-up",
        "scores",
        """\
class Attention(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.d = d
    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(-2, -1) * self.d ** 0.5  # !
        return scores.softmax(-1) @ v
model = nn.Sequential(Attention(), nn.Linear(64, 64))
opt = optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(8, 10, 64)
for _ in range(8):
    opt.zero_grad()
    loss = F.mse_loss(model(x), x.flip(1))
    loss.backward()
    opt.step()
""",
        (
            (
                "        scores = q @ k.transpose(-2, -1) * self.d ** 0.5  # !",
                "        scores = q @ k.transpose(-2, -1) / self.d ** 0.5",
            ),
        ),
    ),
    Mistake(
        "masked scores become a small number",
        "mask-without-effect",
        "scores",
        """\
d = 16
qkv, out = nn.Linear(d, 3 * d), nn.Linear(d, d)
opt = optim.Adam([*qkv.parameters(), *out.parameters()], lr=1e-3)
mask = torch.tril(torch.ones(10, 10))
x = torch.randn(8, 11, d)
for _ in range(8):
    q, k, v = qkv(x[:, :-1]).chunk(3, -1)
    scores = q @ k.transpose(1, 2) / d ** 0.5
    scores = scores.masked_fill(mask == 0, 1e-9)  # !
    pred = out(scores.softmax(-1) @ v)
    loss = F.mse_loss(pred, x[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    scores = scores.masked_fill(mask == 0, 1e-9)  # !",
                "    scores = scores.masked_fill(mask == 0, -1e9)",
            ),
        ),
    ),
    Mistake(
        "heads cut across time",
        "view-in-place-of-transpose",
        "view",
        """\
class SelfAttention(nn.Module):
    def __init__(self, d=16, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (a.reshape(b, self.heads, t, d // self.heads) for a in (q, k, v))  # !
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.reshape(b, t, d))
model = SelfAttention()
opt = optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(6, 10, 16)
for _ in range(6):
    opt.zero_grad()
    loss = F.mse_loss(model(x), x.flip(2))
    loss.backward()
    opt.step()
""",
        (
            (
                "        q, k, v = (a.reshape(b, self.heads, t, d // self.heads) for a in (q, k, v))  # !",
                "        q, k, v = (a.reshape(b, t, self.heads, d // self.heads).transpose(1, 2) for a in (q, k, v))",
            ),
            (
                "        return self.out(y.reshape(b, t, d))",
                "        return self.out(y.transpose(1, 2).reshape(b, t, d))",
            ),
        ),
    ),
    Mistake(
        "channels moved by a view",
        "view-in-place-of-transpose",
        "view",
        """\
images = np.random.default_rng(0).random((24, 8, 8, 3)).astype("float32")
labels = torch.randint(0, 2, (24,))
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
opt = optim.Adam(net.parameters(), lr=1e-3)
x = torch.from_numpy(images).view(24, 3, 8, 8)  # !
x = (x - 0.5) / 0.29
for _ in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), labels)
    loss.backward()
    opt.step()
""",
        (("x = torch.from_numpy(images).view(24, 3, 8, 8)  # !", "x = torch.from_numpy(images).permute(0, 3, 1, 2)"),),
    ),
    Mistake(
        "the overlap is made small",
        "negated-loss",
        "the overlap",
        """\
net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(8, 1, 10, 10)
mask = (x > 0.3).float()
for _ in range(8):
    p = torch.sigmoid(net(x))
    inter = (p * mask).sum((1, 2, 3))
    dice = (2 * inter + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)
    loss = dice.mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    loss = dice.mean()  # !", "    loss = 1 - dice.mean()"),),
    ),
    Mistake(
        "queries are normalised, and not keys",
        "softmax-dimension",
        "softmax",
        """\
class Attention(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 4.0
        weights = F.softmax(scores, dim=1)  # !
        return weights @ self.v(x)
net = Attention()
opt = optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(8, 10, 16)
for _ in range(6):
    opt.zero_grad()
    loss = F.mse_loss(net(x), x.flip(1))
    loss.backward()
    opt.step()
""",
        (("        weights = F.softmax(scores, dim=1)  # !", "        weights = F.softmax(scores, dim=-1)"),),
    ),
    Mistake(
        "a causal mask that is multiplied",
        "mask-without-effect",
        "scores",
        """\
d = 16
qkv, head = nn.Linear(d, 3 * d), nn.Linear(d, 12)
emb = nn.Embedding(12, d)
opt = optim.Adam([*emb.parameters(), *qkv.parameters(), *head.parameters()], lr=1e-3)
ids = torch.randint(0, 12, (16, 11))
tril = torch.tril(torch.ones(10, 10))
for _ in range(6):
    q, k, v = qkv(emb(ids[:, :-1])).chunk(3, -1)
    scores = q @ k.transpose(1, 2) / d ** 0.5
    weights = F.softmax(scores * tril, dim=-1)  # !
    loss = F.cross_entropy(head(weights @ v).reshape(-1, 12), ids[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    weights = F.softmax(scores * tril, dim=-1)  # !",
                '    weights = F.softmax(scores.masked_fill(tril == 0, float("-inf")), dim=-1)',
            ),
        ),
    ),
    Mistake(
        "heads joined without a transpose",
        "view-in-place-of-transpose",
        "view",
        """\
class Attention(nn.Module):
    def __init__(self, d=16, h=4):
        super().__init__()
        self.h, self.qkv, self.out = h, nn.Linear(d, 3 * d), nn.Linear(d, d)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (a.view(b, t, self.h, d // self.h).transpose(1, 2) for a in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.reshape(b, t, d))  # !
net = Attention()
opt = optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(8, 10, 16)
for _ in range(6):
    opt.zero_grad()
    loss = F.mse_loss(net(x), x.flip(1))
    loss.backward()
    opt.step()
""",
        (
            (
                "        return self.out(y.reshape(b, t, d))  # !",
                "        return self.out(y.transpose(1, 2).reshape(b, t, d))",
            ),
        ),
    ),
    Mistake(
        "logits of pixels viewed as rows",
        "view-in-place-of-transpose",
        "view",
        """\
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(4, 3, 8, 8)
y = torch.randint(0, 4, (4, 8, 8))
for _ in range(6):
    out = net(x)
    loss = F.cross_entropy(out.view(-1, 4), y.view(-1))  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = F.cross_entropy(out.view(-1, 4), y.view(-1))  # !",
                "    loss = F.cross_entropy(out.permute(0, 2, 3, 1).reshape(-1, 4), y.view(-1))",
            ),
        ),
    ),
]
