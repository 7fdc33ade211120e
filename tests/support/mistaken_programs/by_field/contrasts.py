"""Mistakes in similarities, distances and what is compared with them."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

CONTRAST_MISTAKES = [
    Mistake(
        "each view is its own best match",
        "self-similarity",
        "sim",
        """\
enc = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))
opt = optim.Adam(enc.parameters(), lr=1e-3)
data = torch.randn(32, 10)
for _ in range(8):
    a, b = data + 0.1 * torch.randn_like(data), data + 0.1 * torch.randn_like(data)
    z = F.normalize(enc(torch.cat([a, b])), dim=1)
    sim = z @ z.T / 0.5
    labels = torch.cat([torch.arange(32, 64), torch.arange(32)])
    loss = F.cross_entropy(sim, labels)  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    labels = torch.cat([torch.arange(32, 64), torch.arange(32)])",
                """\
    sim = sim.masked_fill(torch.eye(64, dtype=torch.bool), float("-inf"))
    labels = torch.cat([torch.arange(32, 64), torch.arange(32)])""",
            ),
        ),
    ),
    Mistake(
        "positive and negative exchanged",
        "arguments-crossed",
        "negative",
        """\
emb = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
opt = optim.Adam(emb.parameters(), lr=1e-3)
triplet = nn.TripletMarginLoss(margin=1.0)
centres = torch.randn(4, 6) * 3
for _ in range(10):
    c = torch.randint(0, 4, (32,))
    anchor = emb(centres[c] + 0.1 * torch.randn(32, 6))
    positive = emb(centres[c] + 0.1 * torch.randn(32, 6))
    negative = emb(centres[(c + 1) % 4] + 0.1 * torch.randn(32, 6))
    loss = triplet(anchor, negative, positive)  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    loss = triplet(anchor, negative, positive)  # !", "    loss = triplet(anchor, positive, negative)"),),
    ),
    Mistake(
        "the loss of a contrast has no margin",
        "negated-loss",
        "the distance",
        """\
emb = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
opt = optim.Adam(emb.parameters(), lr=1e-3)
for _ in range(10):
    a, b = torch.randn(32, 6), torch.randn(32, 6)
    same = (torch.rand(32) < 0.5).float()
    d = (emb(a) - emb(b)).norm(dim=1)
    loss = (same * d.pow(2) - (1 - same) * d.pow(2)).mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = (same * d.pow(2) - (1 - same) * d.pow(2)).mean()  # !",
                "    loss = (same * d.pow(2) + (1 - same) * F.relu(1.0 - d).pow(2)).mean()",
            ),
        ),
    ),
    Mistake(
        "a temperature that multiplies",
        "temperature-inverted",
        "logits",
        """\
enc_a, enc_b = nn.Linear(10, 16), nn.Linear(12, 16)
opt = optim.Adam([*enc_a.parameters(), *enc_b.parameters()], lr=1e-3)
xa, xb = torch.randn(32, 10), torch.randn(32, 12)
for _ in range(8):
    za, zb = F.normalize(enc_a(xa), dim=1), F.normalize(enc_b(xb), dim=1)
    logits = za @ zb.T * 0.07  # !
    labels = torch.arange(32)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    logits = za @ zb.T * 0.07  # !", "    logits = za @ zb.T / 0.07"),),
    ),
    Mistake(
        "zeros as the targets of a contrast",
        "targets-not-diagonal",
        "target",
        """\
enc_a, enc_b = nn.Linear(10, 16), nn.Linear(12, 16)
opt = optim.Adam([*enc_a.parameters(), *enc_b.parameters()], lr=1e-3)
xa, xb = torch.randn(32, 10), torch.randn(32, 12)
for _ in range(8):
    za, zb = F.normalize(enc_a(xa), dim=1), F.normalize(enc_b(xb), dim=1)
    logits = za @ zb.T / 0.1
    labels = torch.zeros(32, dtype=torch.long)
    loss = F.cross_entropy(logits, labels)  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                """\
    labels = torch.zeros(32, dtype=torch.long)
    loss = F.cross_entropy(logits, labels)  # !""",
                """\
    labels = torch.arange(32)
    loss = F.cross_entropy(logits, labels)""",
            ),
        ),
    ),
    Mistake(
        "a teacher that learns",
        "target-with-gradient",
        "target",
        """\
teacher = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
student = nn.Linear(6, 3)
opt = optim.Adam([*student.parameters(), *teacher.parameters()], lr=1e-2)
x = torch.randn(48, 6)
for _ in range(8):
    s = F.log_softmax(student(x) / 2, dim=1)
    t = F.softmax(teacher(x) / 2, dim=1)
    loss = F.kl_div(s, t, reduction="batchmean") * 4  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "opt = optim.Adam([*student.parameters(), *teacher.parameters()], lr=1e-2)",
                "opt = optim.Adam(student.parameters(), lr=1e-2)",
            ),
            (
                """\
    t = F.softmax(teacher(x) / 2, dim=1)
    loss = F.kl_div(s, t, reduction="batchmean") * 4  # !""",
                """\
    with torch.no_grad():
        t = F.softmax(teacher(x) / 2, dim=1)
    loss = F.kl_div(s, t, reduction="batchmean") * 4""",
            ),
        ),
    ),
    Mistake(
        "the gradient of the norm at zero",
        "nan",
        "sqrt of its operand (32, 32) of 0 to 8.41",
        """\
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16))
opt = optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(32, 6)
for _ in range(5):
    z = net(x)
    dist = (z.unsqueeze(1) - z.unsqueeze(0)).pow(2).sum(-1).sqrt()  # !
    loss = (dist - 1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    dist = (z.unsqueeze(1) - z.unsqueeze(0)).pow(2).sum(-1).sqrt()  # !",
                "    dist = ((z.unsqueeze(1) - z.unsqueeze(0)).pow(2).sum(-1) + 1e-8).sqrt()",
            ),
        ),
    ),
    Mistake(
        "hardest negative is the easiest",
        "mask-without-effect",
        "min",
        """\
emb = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
opt = optim.Adam(emb.parameters(), lr=1e-3)
centres = torch.randn(4, 6) * 3
for _ in range(8):
    c = torch.arange(4).repeat(8)
    z = emb(centres[c] + 0.1 * torch.randn(32, 6))
    d = torch.cdist(z, z)
    same = c[:, None] == c[None]
    pos = (d * same.float()).max(1).values
    neg = (d * (~same).float()).min(1).values  # !
    loss = F.relu(pos - neg + 0.5).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    neg = (d * (~same).float()).min(1).values  # !", "    neg = d.masked_fill(same, 1e9).min(1).values"),),
    ),
    Mistake(
        "a margin on the wrong side",
        "target-out-of-range",
        "cosine_embedding_loss",
        """\
emb = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
opt = optim.Adam(emb.parameters(), lr=1e-3)
for _ in range(8):
    a, b = torch.randn(32, 6), torch.randn(32, 6)
    same = (torch.rand(32) < 0.5).float()
    loss = F.cosine_embedding_loss(emb(a), emb(b), same)  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = F.cosine_embedding_loss(emb(a), emb(b), same)  # !",
                "    loss = F.cosine_embedding_loss(emb(a), emb(b), 2 * same - 1)",
            ),
        ),
    ),
]
