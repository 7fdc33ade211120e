"""Mistakes in probabilities and signs: labels that exclude each other, noise, ratios, similarities, masks of losses."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

PROBABILITY_MISTAKES = [
    Mistake(
        "softmax for many labels",
        "softmax-for-labels",
        "softmax",
        """\
class Tags(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(10, 32), nn.Linear(32, 5)
    def forward(self, x):
        return F.softmax(self.out(F.relu(self.body(x))), dim=1)  # !
net = Tags()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(40, 10)
y = (x[:, :5] > -0.2).float()
for _ in range(8):
    opt.zero_grad()
    loss = F.binary_cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("F.softmax(self.out(F.relu(self.body(x))), dim=1)", "torch.sigmoid(self.out(F.relu(self.body(x))))"),),
    ),
    Mistake(
        "row without keys",
        "nan",
        "softmax",
        """\
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(8, 1), nn.Linear(8, 2)
    def forward(self, x, mask):
        s = self.score(x).squeeze(-1)
        s = s.masked_fill(~mask, float("-inf"))
        w = s.softmax(1)  # !
        return self.out((w.unsqueeze(-1) * x).sum(1))
net = Pool()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(6, 5, 8)
lengths = torch.tensor([5, 3, 0, 2, 4, 1])
mask = torch.arange(5)[None, :] < lengths[:, None]
y = torch.tensor([0, 1, 0, 1, 1, 0])
for _ in range(4):
    opt.zero_grad()
    loss = F.cross_entropy(net(x, mask), y)
    loss.backward()
    opt.step()
""",
        (("[5, 3, 0, 2, 4, 1]", "[5, 3, 1, 2, 4, 1]"),),
    ),
    Mistake(
        "ratio of one",
        "ratio-of-one",
        "ratio",
        """\
actor = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3))
opt = optim.Adam(actor.parameters(), lr=3e-4)
obs = torch.randn(32, 6)
acts = torch.distributions.Categorical(logits=actor(obs)).sample()
with torch.no_grad():
    before = torch.distributions.Categorical(logits=actor(obs)).log_prob(acts)
adv = torch.randn(32)
for epoch in range(6):
    dist = torch.distributions.Categorical(logits=actor(obs))
    logp = dist.log_prob(acts)
    old = logp.detach()
    ratio = (logp - old).exp()  # !
    surrogate = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
    loss = -surrogate.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("old = logp.detach()", "old = before"),),
    ),
    Mistake(
        "uniform latent",
        "uniform-noise",
        "rand",
        """\
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.lv = nn.Linear(12, 24), nn.Linear(24, 4), nn.Linear(24, 4)
        self.dec = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 12))
    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, lv = self.mu(h), self.lv(h)
        std = torch.exp(0.5 * lv)
        z = mu + std * torch.rand_like(std)  # !
        return self.dec(z), mu, lv
net = VAE()
opt = optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(32, 12)
for _ in range(5):
    rec, mu, lv = net(x)
    kl = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(1).mean()
    loss = F.mse_loss(rec, x) + 0.1 * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("torch.rand_like", "torch.randn_like"),),
    ),
    Mistake(
        "similarity made small",
        "negated-loss",
        "cosine_similarity",
        """\
encoder = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))
predictor = nn.Linear(16, 16)
opt = optim.Adam([*encoder.parameters(), *predictor.parameters()], lr=1e-3)
x = torch.randn(32, 10)
for _ in range(5):
    a, b = x + 0.1 * torch.randn(32, 10), x + 0.1 * torch.randn(32, 10)
    za, zb = encoder(a), encoder(b)
    pa, pb = predictor(za), predictor(zb)
    loss = 0.5 * F.cosine_similarity(pa, zb.detach()).mean() + 0.5 * F.cosine_similarity(pb, za.detach()).mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "loss = 0.5 * F.cosine_similarity(pa, zb.detach()).mean() + 0.5",
                "loss = -0.5 * F.cosine_similarity(pa, zb.detach()).mean() - 0.5",
            ),
        ),
    ),
    Mistake(
        "teacher logits as target",
        "nan",
        "xlogy",
        """\
teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
student = nn.Linear(8, 4)
opt = optim.Adam(student.parameters(), lr=1e-2)
T = 2.0
for _ in range(6):
    x = torch.randn(24, 8)
    with torch.no_grad():
        t = teacher(x)
    s = student(x)
    loss = F.kl_div(F.log_softmax(s / T, dim=1), t / T, reduction="batchmean") * T * T  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ((", t / T,", ", F.softmax(t / T, dim=1),"),),
    ),
    Mistake(
        "loss of the padding",
        "mask-inverted",
        "mask",
        """\
vocab, pad = 12, 0
emb = nn.Embedding(vocab, 16, padding_idx=pad)
rnn, head = nn.GRU(16, 24, batch_first=True), nn.Linear(24, vocab)
opt = optim.Adam([*emb.parameters(), *rnn.parameters(), *head.parameters()], lr=1e-2)
tokens = torch.randint(1, vocab, (8, 10))
lengths = torch.tensor([10, 7, 5, 9, 4, 8, 6, 3])
tokens[torch.arange(10)[None, :] >= lengths[:, None]] = pad
for _ in range(5):
    x, y = tokens[:, :-1], tokens[:, 1:]
    logits = head(rnn(emb(x))[0])
    each = F.cross_entropy(logits.transpose(1, 2), y, reduction="none")
    mask = (y == pad).float()  # !
    loss = (each * mask).sum() / mask.sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("mask = (y == pad)", "mask = (y != pad)"),),
    ),
    Mistake(
        "deviation of one return",
        "nan",
        "returns",
        """\
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = optim.Adam(policy.parameters(), lr=1e-2)
for length in (5, 3, 1):
    obs = torch.randn(length, 4)
    dist = torch.distributions.Categorical(logits=policy(obs))
    logp = dist.log_prob(dist.sample())
    returns = torch.rand(length).flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)  # !
    loss = -(logp * returns).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("(returns.std() + 1e-8)", "(returns.std(unbiased=False) + 1e-8)"),),
    ),
    Mistake(
        "backward of own function",
        "wrong-backward",
        "Swish",
        """\
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s
    @staticmethod
    def backward(ctx, grad):
        x, s = ctx.saved_tensors
        return grad * (s * (1 - s))  # !
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 24), nn.Linear(24, 2)
    def forward(self, x):
        return self.b(Swish.apply(self.a(x)))
net = Net()
opt = optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(32, 6), torch.randint(0, 2, (32,))
for _ in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("(s * (1 - s))", "(s + x * s * (1 - s))"),),
    ),
]
