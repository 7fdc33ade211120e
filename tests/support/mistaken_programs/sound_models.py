"""Programs of several kinds of models without a mistake, near to mistakes that the doctor finds."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER

SOUND_MODELS = {
    "lora": """\
class L(nn.Module):

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(8, 8).requires_grad_(False)
        self.a = nn.Linear(8, 2, bias=False)
        self.b = nn.Linear(2, 8, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))
m = L()
o = optim.Adam([p for p in m.parameters() if p.requires_grad], lr=0.01)
x, t = (torch.randn(32, 8), torch.randn(32, 8))
for _ in range(8):
    o.zero_grad()
    F.mse_loss(m(x), t).backward()
    o.step()
""",
    "linear autoencoder": """\
e, d = (nn.Linear(10, 3), nn.Linear(3, 10))
o = optim.Adam([*e.parameters(), *d.parameters()], lr=0.01)
x = torch.randn(40, 10)
for _ in range(8):
    o.zero_grad()
    F.mse_loss(d(e(x)), x).backward()
    o.step()
""",
    "gan feature matching": """\
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
B = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2))
H = nn.Linear(16, 1)
og = optim.Adam(G.parameters(), lr=0.001, betas=(0.5, 0.999))
od = optim.Adam([*B.parameters(), *H.parameters()], lr=0.001, betas=(0.5, 0.999))
for _ in range(8):
    real = torch.randn(32, 6)
    fake = G(torch.randn(32, 4))
    ld = F.binary_cross_entropy_with_logits(H(B(real)), torch.ones(32, 1) * 0.9)
    ld = ld + F.binary_cross_entropy_with_logits(H(B(fake.detach())), torch.zeros(32, 1))
    od.zero_grad()
    ld.backward()
    od.step()
    lg = F.mse_loss(B(fake).mean(0), B(real).mean(0).detach())
    og.zero_grad()
    lg.backward()
    og.step()
""",
    "supervised contrastive": """\
enc = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
o = optim.Adam(enc.parameters(), lr=0.01)
x = torch.randn(24, 6)
y = torch.randint(0, 3, (24,))
for _ in range(8):
    z = F.normalize(enc(x), dim=1)
    sim = z @ z.T / 0.2
    sim = sim.masked_fill(torch.eye(24).bool(), -1000000000.0)
    same = (y[:, None] == y).float() * (1 - torch.eye(24))
    logp = F.log_softmax(sim, 1)
    loss = -(logp * same).sum(1).div(same.sum(1).clamp(min=1)).mean()
    o.zero_grad()
    loss.backward()
    o.step()
""",
    "mixup": CLASSIFIER
    + """\
for _ in range(8):
    order = torch.randperm(48)
    lam = 0.7
    out = net(lam * x + (1 - lam) * x[order])
    loss = lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[order])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "dqn soft updates": """\
import copy
q = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
tq = copy.deepcopy(q)
o = optim.Adam(q.parameters(), lr=0.01)

def soft():
    for a, b in zip(tq.parameters(), q.parameters()):
        a.data.mul_(0.99).add_(b.data, alpha=0.01)
for _ in range(15):
    s, s2 = (torch.randn(8, 3), torch.randn(8, 3))
    a = torch.randint(0, 2, (8, 1))
    r = torch.randn(8)
    with torch.no_grad():
        t = r + 0.9 * tq(s2).gather(1, q(s2).argmax(1, keepdim=True)).squeeze(1)
    loss = F.smooth_l1_loss(q(s).gather(1, a).squeeze(1), t)
    o.zero_grad()
    loss.backward()
    o.step()
    soft()
""",
    "actor critic with entropy": """\
pi = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
v = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
o = optim.Adam([*pi.parameters(), *v.parameters()], lr=0.01)
for _ in range(8):
    s = torch.randn(32, 4)
    logp = F.log_softmax(pi(s), -1)
    a = torch.multinomial(logp.exp().detach(), 1)
    ret = torch.randn(32)
    val = v(s).squeeze(1)
    adv = ret - val.detach()
    ent = -(logp.exp() * logp).sum(1).mean()
    loss = -(logp.gather(1, a).squeeze(1) * adv).mean() + 0.5 * F.mse_loss(val, ret) - 0.01 * ent
    o.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([*pi.parameters(), *v.parameters()], 0.5)
    o.step()
""",
    "cross entropy with entropy bonus": CLASSIFIER
    + """\
for _ in range(8):
    out = net(x)
    p = out.softmax(1)
    ent = -(p * p.clamp(min=1e-08).log()).sum(1).mean()
    loss = F.cross_entropy(out, y) - 0.01 * ent
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "resnet with inplace relu": """\
class B(nn.Module):

    def __init__(self, c):
        super().__init__()
        self.c1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(c)
        self.c2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(c)
        self.r = nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.r(self.b1(self.c1(x)))
        h = self.b2(self.c2(h))
        h += x
        return self.r(h)
m = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=True), B(4), B(4), nn.AdaptiveAvgPool2d(1))
m = nn.Sequential(m, nn.Flatten(), nn.Dropout(0.2), nn.Linear(4, 3))
o = optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
x = torch.randn(12, 1, 8, 8)
y = torch.randint(0, 3, (12,))
for _ in range(8):
    o.zero_grad()
    F.cross_entropy(m(x), y, label_smoothing=0.1).backward()
    o.step()
""",
    "tied language model": """\
class T(nn.Module):

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.pos = nn.Embedding(12, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, i):
        t = i.size(1)
        m = nn.Transformer.generate_square_subsequent_mask(t)
        return self.head(self.blocks(self.emb(i) + self.pos(torch.arange(t)), mask=m, is_causal=True))
m = T()
o = optim.AdamW(m.parameters(), lr=0.003)
d = torch.randint(0, 20, (16, 13))
for _ in range(6):
    out = m(d[:, :-1])
    loss = F.cross_entropy(out.reshape(-1, 20), d[:, 1:].reshape(-1))
    o.zero_grad()
    loss.backward()
    o.step()
""",
    "masked language model": """\
emb = nn.Embedding(20, 16)
enc = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
head = nn.Linear(16, 20)
o = optim.Adam([*emb.parameters(), *enc.parameters(), *head.parameters()], lr=0.003)
d = torch.randint(2, 20, (16, 10))
for _ in range(6):
    hide = torch.rand(16, 10) < 0.2
    inp = d.masked_fill(hide, 1)
    tgt = d.masked_fill(~hide, -100)
    loss = F.cross_entropy(head(enc(emb(inp))).transpose(1, 2), tgt)
    o.zero_grad()
    loss.backward()
    o.step()
""",
    "seq2seq with padding": """\
src = torch.randint(1, 15, (12, 8))
src[:, 6:] *= (torch.rand(12, 2) > 0.5).long()
tgt = torch.randint(1, 15, (12, 8))
L = torch.randint(4, 8, (12,))
tgt = tgt * (torch.arange(8) < L[:, None]).long()
src = src * (torch.arange(8) < L[:, None]).long()
emb = nn.Embedding(15, 16, padding_idx=0)
tr = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
head = nn.Linear(16, 15)
o = optim.Adam([*emb.parameters(), *tr.parameters(), *head.parameters()], lr=0.003)
for _ in range(5):
    ti, to = (tgt[:, :-1], tgt[:, 1:])
    m = torch.triu(torch.ones(7, 7), 1).bool()
    hidden = dict(src_key_padding_mask=src == 0, tgt_key_padding_mask=ti == 0, memory_key_padding_mask=src == 0)
    h = tr(emb(src), emb(ti), tgt_mask=m, **hidden)
    loss = F.cross_entropy(head(h).flatten(0, 1), to.flatten(), ignore_index=0)
    o.zero_grad()
    loss.backward()
    o.step()
""",
    "distillation with a frozen teacher": CLASSIFIER
    + """\
teacher = Net().eval()
for p in teacher.parameters():
    p.requires_grad_(False)
for _ in range(8):
    with torch.no_grad():
        tl = teacher(x)
    sl = net(x)
    loss = F.kl_div(F.log_softmax(sl / 2, 1), F.softmax(tl / 2, 1), reduction='batchmean') * 4 + F.cross_entropy(sl, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "triplet": """\
enc = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4))
o = optim.Adam(enc.parameters(), lr=0.01)
a = torch.randn(32, 5)
for _ in range(8):
    p = a + 0.1 * torch.randn(32, 5)
    n = a[torch.randperm(32)]
    loss = F.triplet_margin_loss(enc(a), enc(p), enc(n))
    o.zero_grad()
    loss.backward()
    o.step()
""",
    "segmentation with a void class": """\
m = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
o = optim.Adam(m.parameters(), lr=0.01)
x = torch.randn(4, 1, 8, 8)
y = torch.randint(0, 3, (4, 8, 8))
for _ in range(8):
    o.zero_grad()
    F.cross_entropy(m(x), y, ignore_index=0).backward()
    o.step()
""",
    "weighted samples and class weights": CLASSIFIER
    + """\
w = torch.rand(48)
counts = torch.bincount(y, minlength=3).float()
cw = counts.sum() / (3 * counts)
for _ in range(8):
    loss = (F.cross_entropy(net(x), y, weight=cw, reduction='none') * w).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "vae": """\
enc, dec = (nn.Linear(8, 6), nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 8)))
o = optim.Adam([*enc.parameters(), *dec.parameters()], lr=0.01)
x = torch.rand(32, 8)
for _ in range(8):
    mu, lv = enc(x).chunk(2, 1)
    z = mu + torch.randn_like(mu) * (lv / 2).exp()
    rec = F.binary_cross_entropy_with_logits(dec(z), x, reduction='sum') / 32
    kl = -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp()) / 32
    loss = rec + kl
    o.zero_grad()
    loss.backward()
    o.step()
""",
    "gradient by hand with momentum": """\
w = torch.zeros(3, requires_grad=True)
vel = torch.zeros(3)
x = torch.randn(40, 3)
t = x @ torch.tensor([1.0, 2.0, 3.0])
for _ in range(10):
    loss = ((x @ w - t) ** 2).mean()
    g, = torch.autograd.grad(loss, w)
    with torch.no_grad():
        vel = 0.9 * vel + g
        w -= 0.05 * vel
""",
    "saliency": """\
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
x = torch.randn(5, 4, requires_grad=True)
for _ in range(6):
    m(x)[:, 0].sum().backward()
    s = x.grad.abs()
    x.grad = None
    m.zero_grad()
""",
    "elastic penalty and ema": CLASSIFIER
    + """\
import copy
ema = copy.deepcopy(net)
for _ in range(10):
    loss = F.cross_entropy(net(x), y) + 0.001 * sum((p.abs().sum() for p in net.parameters()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), net.parameters()):
            a.lerp_(b, 0.1)
    hits = (net(x).argmax(1) == y).float().mean().item()
""",
    "regression with relu for counts": """\
m = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Softplus())
o = optim.Adam(m.parameters(), lr=0.01)
x = torch.randn(40, 4)
t = x.abs().sum(1, keepdim=True)
for _ in range(8):
    o.zero_grad()
    F.mse_loss(m(x), t).backward()
    o.step()
""",
    "residual mlp with projections": """\
class M(nn.Module):

    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(6, 16)
        self.q = nn.Linear(16, 16)
        self.k = nn.Linear(16, 16)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        h = self.inp(x)
        g = torch.sigmoid(self.q(h)) * torch.tanh(self.k(h))
        return self.out(h + g)
m = M()
o = optim.Adam(m.parameters(), lr=0.01)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    o.zero_grad()
    F.cross_entropy(m(x), y).backward()
    o.step()
""",
    "multiple instance learning": """\
m = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
o = optim.Adam(m.parameters(), lr=0.01)
for i in range(8):
    bag = torch.randn(12, 5)
    y = torch.tensor(float(i % 2))
    loss = F.binary_cross_entropy_with_logits(m(bag).mean(), y)
    o.zero_grad()
    loss.backward()
    o.step()
""",
    "tabular with an unknown category": """\
emb = nn.Embedding(6, 4, padding_idx=0)
out = nn.Linear(7, 1)
o = optim.Adam([*emb.parameters(), *out.parameters()], lr=0.01)
c = torch.randint(1, 6, (60,))
c[:3] = 0
x = torch.randn(60, 3)
t = x.sum(1)
for _ in range(8):
    o.zero_grad()
    F.mse_loss(out(torch.cat([emb(c), x], 1)).squeeze(1), t).backward()
    o.step()
""",
}
