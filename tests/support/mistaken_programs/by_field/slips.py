"""Slips: another layer than the one that is meant, labels of other samples, results that are not read."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

SLIP_MISTAKES = [
    Mistake(
        "labels of the clean half",
        "same-targets",
        "y[:16]",
        """\
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 32), nn.Linear(32, 4)
    def forward(self, x):
        return self.head(self.body(x).relu())
net = Encoder()
opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(64, 8)
y = x[:, :4].argmax(1)
for epoch in range(6):
    for i in range(0, 64, 16):
        logits = net(x[i:i + 16])
        loss = F.cross_entropy(logits, y[:16])  # !
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        (("y[:16]", "y[i:i + 16]"),),
    ),
    Mistake(
        "skip added before the block",
        "result-unused",
        "h",
        """\
class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
    def forward(self, x):
        h = self.b(self.a(x).relu())  # !
        x = x + x
        return x.relu()
net = nn.Sequential(nn.Linear(6, 12), Block(12), nn.Linear(12, 3))
opt = optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
for _ in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("x = x + x", "x = x + h"),),
    ),
    Mistake(
        "gradient noise scaled by zero",
        "learning-rate-vanishes",
        "opt",
        """\
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.SGD(net.parameters(), lr=1e-2)
sched = optim.lr_scheduler.LambdaLR(opt, lambda epoch: max(0, 1 - epoch))  # !
x, y = torch.randn(32, 5), torch.randn(32, 1)
for epoch in range(8):
    opt.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    sched.step()
""",
        (("max(0, 1 - epoch)", "max(0.0, 1 - epoch / 80)"),),
    ),
    Mistake(
        "batch norm after the output",
        "norm-on-output",
        "net.3",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1), nn.BatchNorm1d(1))  # !
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 6)
y = 30 + 5 * x[:, :1]
for _ in range(8):
    opt.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    opt.step()
""",
        (("nn.Linear(24, 1), nn.BatchNorm1d(1))", "nn.Linear(24, 1))"),),
    ),
    Mistake(
        "attention without a scale of keys",
        "layer-in-place-of-other",
        "k",
        """\
class Attn(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(d, 4)
    def forward(self, x):
        q, k, v = self.q(x), self.q(x), self.v(x)  # !
        w = (q @ k.transpose(1, 2) / 4).softmax(-1)
        return self.out((w @ v).mean(1))
net = Attn(16)
opt = optim.Adam(net.parameters(), lr=1e-3)
x, y = torch.randn(12, 6, 16), torch.randint(0, 4, (12,))
for _ in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("self.q(x), self.q(x), self.v(x)", "self.q(x), self.k(x), self.v(x)"),),
    ),
    Mistake(
        "validation updates the weights",
        "step-in-evaluation",
        "net",
        """\
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
opt = optim.Adam(net.parameters(), lr=1e-2)
def run(x, y, train):
    net.train(train)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()  # !
    return loss.item()
for epoch in range(6):
    run(torch.randn(32, 6), torch.randint(0, 2, (32,)), True)
    run(torch.randn(32, 6), torch.randint(0, 2, (32,)), False)
""",
        (
            (
                "    opt.zero_grad()\n    loss.backward()\n    opt.step()  # !",
                "    if train:\n        opt.zero_grad()\n        loss.backward()\n        opt.step()",
            ),
        ),
    ),
]
