"""Mistakes about the terms of a loss: steps without a gradient, means too early, signs and penalties."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, REGRESSION, Mistake

TERM_MISTAKES = [
    Mistake(
        "accuracy as the loss",
        "loss-independent-of-model",
        "optimizer",
        CLASSIFIER
        + """\
for epoch in range(6):
    optimizer.zero_grad()
    out = net(x)
    correct = (out.argmax(1) == y).float()  # !
    loss = (1 - correct.mean()).requires_grad_()
    loss.backward()
    optimizer.step()
""",
        (
            (
                "    correct = (out.argmax(1) == y).float()  # !\n    loss = (1 - correct.mean()).requires_grad_()\n",
                "    loss = F.cross_entropy(out, y)\n",
            ),
        ),
    ),
    Mistake(
        "round of the prediction in the loss",
        "zero-gradient",
        "model",
        REGRESSION
        + """\
for _ in range(6):
    opt.zero_grad()
    pred = torch.round(model(x).squeeze(1))  # !
    loss = F.mse_loss(pred, t)
    loss.backward()
    opt.step()
""",
        (("torch.round(model(x).squeeze(1))", "model(x).squeeze(1)"),),
    ),
    Mistake(
        "thresholded probability in the loss",
        "no-gradient",
        "model",
        """\
model = nn.Linear(4, 1)
opt = optim.SGD(model.parameters(), lr=0.1)
scale = nn.Parameter(torch.ones(1))
opt.add_param_group({"params": [scale]})
x = torch.randn(32, 4)
y = (x.sum(1, keepdim=True) > 0).float()
for _ in range(6):
    opt.zero_grad()
    p = torch.sigmoid(model(x))
    hard = (p > 0.5).float()  # !
    loss = F.binary_cross_entropy(torch.sigmoid(hard * scale), y)
    loss.backward()
    opt.step()
""",
        (
            (
                "    hard = (p > 0.5).float()  # !\n    loss = F.binary_cross_entropy(torch.sigmoid(hard * scale), y)",
                "    loss = F.binary_cross_entropy(torch.sigmoid(p * scale), y)",
            ),
        ),
    ),
    Mistake(
        "tokens picked by argmax for the second network",
        "no-gradient",
        "speaker",
        """\
speaker = nn.Linear(5, 8)
table = nn.Embedding(8, 6)
listener = nn.Linear(6, 5)
opt = optim.Adam([*speaker.parameters(), *table.parameters(), *listener.parameters()], lr=0.01)
x = torch.randn(32, 5)
for _ in range(6):
    message = speaker(x).argmax(-1)  # !
    out = listener(table(message))
    loss = F.mse_loss(out, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            ("speaker(x).argmax(-1)  # !", "F.gumbel_softmax(speaker(x), hard=True)"),
            ("table(message)", "message @ table.weight"),
        ),
    ),
    Mistake(
        "a gradient of zeros",
        "zero-gradient",
        "net",
        CLASSIFIER
        + """\
for epoch in range(6):
    optimizer.zero_grad()
    losses = F.cross_entropy(net(x), y, reduction="none")
    losses.backward(torch.zeros_like(losses))  # !
    optimizer.step()
""",
        (("torch.zeros_like(losses)", "torch.full_like(losses, 1 / len(losses))"),),
    ),
    Mistake(
        "layers all get the first input",
        "no-gradient",
        "layers",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.out = nn.Linear(6, 2)
    def forward(self, x):
        for layer in self.layers:
            h = torch.tanh(layer(x))  # !
        return self.out(h)
net = Net()
opt = optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(40, 6)
y = (x[:, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("    def forward(self, x):\n", "    def forward(self, x):\n        h = x\n"), ("layer(x)", "layer(h)")),
    ),
    Mistake(
        "weights after the mean",
        "weights-after-reduction",
        "w",
        CLASSIFIER
        + """\
w = torch.rand(48) + 0.5
for epoch in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss = (loss * w).mean()  # !
    loss.backward()
    optimizer.step()
""",
        (("F.cross_entropy(net(x), y)", 'F.cross_entropy(net(x), y, reduction="none")'),),
    ),
    Mistake(
        "the accuracy compares all with all",
        "broadcast-in-metric",
        "==",
        """\
model = nn.Linear(4, 1)
opt = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(40, 4)
y = (x.sum(1) > 0).float()
for _ in range(6):
    opt.zero_grad()
    logits = model(x)
    loss = F.binary_cross_entropy_with_logits(logits.squeeze(1), y)
    loss.backward()
    opt.step()
    accuracy = ((logits > 0).float() == y).float().mean().item()  # !
""",
        (("(logits > 0)", "(logits.squeeze(1) > 0)"),),
    ),
    Mistake(
        "frames of bytes are subtracted",
        "integer-overflow",
        "-",
        """\
torch.manual_seed(5)
video = torch.randint(0, 256, (33, 12), dtype=torch.uint8)
motion = (video[1:] - video[:-1]).float() / 255  # !
y = (video[1:].float().mean(1) > video[:-1].float().mean(1)).long()
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2))
opt = optim.Adam(model.parameters(), lr=0.01)
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(model(motion), y).backward()
    opt.step()
""",
        (("(video[1:] - video[:-1]).float()", "(video[1:].float() - video[:-1].float())"),),
    ),
    Mistake(
        "divergence of a VAE subtracted",
        "negated-loss",
        "kl",
        """\
enc, dec = nn.Linear(8, 6), nn.Linear(3, 8)
opt = optim.Adam([*enc.parameters(), *dec.parameters()], lr=0.01)
x = torch.randn(32, 8)
for _ in range(8):
    mu, logvar = enc(x).chunk(2, dim=1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    recon = F.mse_loss(dec(z), x)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    loss = recon - kl  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("recon - kl", "recon + 0.1 * kl"),),
    ),
    Mistake(
        "the generator's loss on detached images",
        "loss-independent-of-model",
        "opt_g",
        """\
G, D = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g, opt_d = optim.Adam(G.parameters(), lr=0.01), optim.Adam(D.parameters(), lr=0.01)
real = torch.randn(32, 6)
for _ in range(6):
    fake = G(torch.randn(32, 4)).detach()  # !
    loss_d = F.softplus(-D(real)).mean() + F.softplus(D(fake)).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = F.softplus(-D(fake)).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
""",
        (
            ("G(torch.randn(32, 4)).detach()", "G(torch.randn(32, 4))"),
            ("F.softplus(D(fake))", "F.softplus(D(fake.detach()))"),
        ),
    ),
    Mistake(
        "returns less values, all with all",
        "broadcast-in-loss",
        "returns",
        """\
policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
opt = optim.Adam([*policy.parameters(), *value.parameters()], lr=0.01)
for _ in range(6):
    s, returns = torch.randn(20, 4), torch.randn(20)
    logp = F.log_softmax(policy(s), 1)[:, 0]
    advantage = returns - value(s)  # !
    loss = -(logp * advantage.detach()).mean() + advantage.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("returns - value(s)", "returns - value(s).squeeze(1)"),),
    ),
    Mistake(
        "output clamped before the loss",
        "zero-gradient",
        "net",
        """\
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(40, 4)
age = 40 + 5 * x[:, :1]
for _ in range(6):
    opt.zero_grad()
    pred = net(x).clamp(10, 90)  # !
    loss = F.mse_loss(pred / 100, age / 100)
    loss.backward()
    opt.step()
""",
        ((".clamp(10, 90)", ""),),
    ),
    Mistake(
        "a penalty of .data",
        "constant-penalty",
        ".data",
        CLASSIFIER
        + """\
for epoch in range(6):
    optimizer.zero_grad()
    penalty = sum(p.data.abs().sum() for p in net.parameters())  # !
    loss = F.cross_entropy(net(x), y) + 0.001 * penalty
    loss.backward()
    optimizer.step()
""",
        (("p.data.abs()", "p.abs()"),),
    ),
    Mistake(
        "focal loss without its minus",
        "negated-loss",
        "loss",
        CLASSIFIER
        + """\
for epoch in range(8):
    optimizer.zero_grad()
    logp = F.log_softmax(net(x), 1).gather(1, y[:, None])
    loss = ((1 - logp.exp()) ** 2 * logp).mean()  # !
    loss.backward()
    optimizer.step()
""",
        (("((1 - logp.exp()) ** 2 * logp).mean()", "-((1 - logp.exp()) ** 2 * logp).mean()"),),
    ),
    Mistake(
        "the first layer's state of a deep LSTM",
        "first-layer",
        "rnn",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 8, num_layers=2, batch_first=True)
        self.out = nn.Linear(8, 2)
    def forward(self, x):
        _, (h, _c) = self.rnn(x)
        return self.out(h[0])  # !
net = Net()
opt = optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(20, 5, 3)
y = (x[:, 0, 0] > 0).long()
for _ in range(5):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("h[0]", "h[-1]"),),
    ),
    Mistake(
        "both factors of an adapter begin as zero",
        "zero-gradient",
        "A",
        """\
class Adapter(nn.Module):
    def __init__(self, d, r=2):
        super().__init__()
        self.base = nn.Linear(d, d).requires_grad_(False)
        self.A = nn.Parameter(torch.zeros(r, d))  # !
        self.B = nn.Parameter(torch.zeros(d, r))
    def forward(self, x):
        return self.base(x) + x @ self.A.T @ self.B.T
net = Adapter(6)
opt = optim.SGD([net.A, net.B], lr=0.1)
x, t = torch.randn(32, 6), torch.randn(32, 6)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(net(x), t).backward()
    opt.step()
""",
        (("nn.Parameter(torch.zeros(r, d))", "nn.Parameter(torch.randn(r, d))"),),
    ),
    Mistake(
        "where in place of a threshold",
        "no-gradient",
        "gate",
        """\
gate, body = nn.Linear(4, 1), nn.Linear(4, 3)
opt = optim.SGD([*gate.parameters(), *body.parameters()], lr=0.1)
x = torch.randn(40, 4)
y = torch.randint(0, 3, (40,))
for _ in range(6):
    p = torch.sigmoid(gate(x))
    mask = torch.where(p > 0.5, 1.0, 0.0)  # !
    loss = F.cross_entropy(body(x) * mask, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("torch.where(p > 0.5, 1.0, 0.0)", "p"),),
    ),
]
