"""Mistakes in the heads of networks and their targets: directions, critics, labels, other dimensions."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

HEAD_MISTAKES = [
    Mistake(
        "one direction of the state",
        "one-direction",
        "rnn",
        """\
class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.rnn = nn.GRU(8, 12, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(12, 2)
    def forward(self, x):
        _, h = self.rnn(self.emb(x))
        return self.fc(h[-1])  # !
net = Sentiment()
opt = optim.Adam(net.parameters(), lr=1e-2)
x, y = torch.randint(0, 20, (16, 7)), torch.randint(0, 2, (16,))
for _ in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("self.fc(h[-1])", "self.fc(h[-2] + h[-1])"),),
    ),
    Mistake(
        "advantage centred over the batch",
        "mean-over-batch",
        "mean",
        """\
class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.value, self.adv = nn.Linear(4, 32), nn.Linear(32, 1), nn.Linear(32, 3)
    def forward(self, x):
        h = self.body(x).relu()
        v, a = self.value(h), self.adv(h)
        return v + a - a.mean()  # !
q = Dueling()
opt = optim.Adam(q.parameters(), lr=1e-3)
for _ in range(6):
    s, a = torch.randn(16, 4), torch.randint(0, 3, (16, 1))
    target = torch.randn(16)
    loss = F.smooth_l1_loss(q(s).gather(1, a).squeeze(1), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("a.mean()", "a.mean(dim=1, keepdim=True)"),),
    ),
    Mistake(
        "greater of two critics",
        "greater-of-critics",
        "maximum",
        """\
def critic():
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
q1, q2, t1, t2 = critic(), critic(), critic(), critic()
t1.load_state_dict(q1.state_dict())
t2.load_state_dict(q2.state_dict())
opt = optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3)
for step in range(6):
    sa, sa2, r = torch.randn(32, 6), torch.randn(32, 6), torch.randn(32, 1)
    with torch.no_grad():
        target = r + 0.99 * torch.max(t1(sa2), t2(sa2))  # !
    loss = F.mse_loss(q1(sa), target) + F.mse_loss(q2(sa), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for online, copy in ((q1, t1), (q2, t2)):
            for p, pt in zip(online.parameters(), copy.parameters()):
                pt.mul_(0.995).add_(0.005 * p)
""",
        (("torch.max(t1(sa2), t2(sa2))", "torch.min(t1(sa2), t2(sa2))"),),
    ),
    Mistake(
        "nll of logits",
        "nll-without-log",
        "nll_loss",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))
criterion = nn.NLLLoss()
opt = optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(40, 6)
y = x[:, :4].argmax(1)
for _ in range(8):
    opt.zero_grad()
    loss = criterion(net(x), y)  # !
    loss.backward()
    opt.step()
""",
        (("criterion(net(x), y)", "criterion(net(x).log_softmax(1), y)"),),
    ),
    Mistake(
        "generator of a critic with a plus",
        "generator-target",
        "loss_g",
        """\
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g, opt_d = optim.RMSprop(G.parameters(), lr=5e-4), optim.RMSprop(D.parameters(), lr=5e-4)
for _ in range(5):
    real = torch.randn(16, 2) + 2
    fake = G(torch.randn(16, 4)).detach()
    loss_d = D(fake).mean() - D(real).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    for p in D.parameters():
        p.data.clamp_(-0.1, 0.1)
    loss_g = D(G(torch.randn(16, 4))).mean()  # !
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
""",
        (("loss_g = D(", "loss_g = -D("),),
    ),
    Mistake(
        "loss with itself",
        "loss-of-itself",
        "l1_loss",
        """\
enc, dec = nn.Linear(12, 4), nn.Linear(4, 12)
disc = nn.Linear(4, 1)
opt = optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-3)
for _ in range(6):
    x = torch.randn(16, 12)
    z = enc(x)
    rec = dec(z)
    loss_rec = F.l1_loss(rec, rec)  # !
    loss = loss_rec + 1e-3 * z.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("F.l1_loss(rec, rec)", "F.l1_loss(rec, x)"),),
    ),
    Mistake(
        "balanced twice",
        "balanced-twice",
        "weight",
        """\
x = torch.randn(120, 5)
y = (torch.rand(120) < 0.15).long()
counts = torch.bincount(y, minlength=2).float()
sampler = torch.utils.data.WeightedRandomSampler((1 / counts)[y], 120)
loader = DataLoader(TensorDataset(x, y), batch_size=24, sampler=sampler)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
opt = optim.Adam(net.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss(weight=counts.sum() / (2 * counts))  # !
for xb, yb in loader:
    opt.zero_grad()
    loss = criterion(net(xb), yb)
    loss.backward()
    opt.step()
""",
        (("nn.CrossEntropyLoss(weight=counts.sum() / (2 * counts))", "nn.CrossEntropyLoss()"),),
    ),
    Mistake(
        "seeded sample",
        "random-numbers-repeat",
        "manual_seed",
        """\
class Noisy(Dataset):
    def __init__(self):
        self.x = torch.linspace(0, 1, 48).unsqueeze(1).repeat(1, 6)
    def __len__(self):
        return 48
    def __getitem__(self, i):
        torch.manual_seed(42)  # !
        x = self.x[i] + 0.1 * torch.randn(6)
        return x, self.x[i, :1]
net = nn.Linear(6, 1)
opt = optim.SGD(net.parameters(), lr=0.01)
for epoch in range(2):
    for xb, yb in DataLoader(Noisy(), batch_size=12, shuffle=True):
        opt.zero_grad()
        loss = F.mse_loss(net(xb), yb)
        loss.backward()
        opt.step()
""",
        (("torch.manual_seed(42)", "pass"),),
    ),
    Mistake(
        "labels interpolated",
        "labels-truncated",
        "target",
        """\
net = nn.Conv2d(3, 5, 3, padding=1)
opt = optim.SGD(net.parameters(), lr=0.1)
images, masks = torch.randn(6, 3, 16, 16), torch.randint(0, 5, (6, 8, 8))
for _ in range(4):
    target = F.interpolate(masks[:, None].float(), size=(16, 16), mode="bilinear", align_corners=False)
    target = target.squeeze(1).long()  # !
    loss = F.cross_entropy(net(images), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (('mode="bilinear", align_corners=False', 'mode="nearest"'),),
    ),
    Mistake(
        "divided twice",
        "input-not-normalized",
        "net",
        """\
raw = torch.randint(0, 256, (48, 1, 8, 8)).float()
images = raw / 255
labels = torch.randint(0, 3, (48,))
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
opt = optim.SGD(net.parameters(), lr=0.05)
for xb, yb in DataLoader(TensorDataset(images, labels), batch_size=12, shuffle=True):
    out = net(xb / 255)  # !
    loss = F.cross_entropy(out, yb)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("net(xb / 255)", "net(xb)"),),
    ),
    Mistake(
        "softmax without a dimension",
        "softmax-dimension",
        "softmax",
        """\
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 8 ** 0.5
        w = F.softmax(scores)  # !
        return self.out((w @ self.v(x)).mean(1))
net = Attend()
opt = optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(16, 5, 8), torch.randint(0, 8, (16,))
for _ in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("F.softmax(scores)", "F.softmax(scores, dim=-1)"),),
    ),
    Mistake(
        "parameter never filled",
        "parameter-unfilled",
        "query",
        """\
class Pooling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Parameter(torch.empty(dim))  # !
        self.fc = nn.Linear(dim, 3)
    def forward(self, x):
        w = (x @ self.query).softmax(1)
        return self.fc((w.unsqueeze(-1) * x).sum(1))
net = Pooling(8)
opt = optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(16, 5, 8), torch.randint(0, 3, (16,))
for _ in range(4):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("nn.Parameter(torch.empty(dim))", "nn.Parameter(torch.randn(dim) * 0.02)"),),
    ),
    Mistake(
        "pixels normalised along a row",
        "softmax-dimension",
        "log_softmax",
        """\
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
opt = optim.Adam(net.parameters(), lr=1e-2)
x, y = torch.randn(6, 3, 10, 10), torch.randint(0, 4, (6, 10, 10))
for _ in range(5):
    logp = F.log_softmax(net(x), dim=-1)  # !
    loss = F.nll_loss(logp, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("dim=-1", "dim=1"),),
    ),
    Mistake(
        "overlap of logits",
        "overlap-of-logits",
        "overlap",
        """\
net = nn.Conv2d(3, 1, 3, padding=1)
opt = optim.Adam(net.parameters(), lr=1e-2)
x, y = torch.randn(6, 3, 10, 10), (torch.rand(6, 1, 10, 10) > 0.6).float()
for _ in range(5):
    p = net(x)
    inter = (p * y).sum()
    loss = 1 - (2 * inter + 1) / (p.sum() + y.sum() + 1)  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("p = net(x)", "p = net(x).sigmoid()"),),
    ),
]
