"""Mistakes in networks and losses: lines without effect, penalties, targets out of reach."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

NETWORK_MISTAKES = [
    Mistake(
        "the label is one of the inputs",
        "target-in-input",
        "net",
        """\
table = torch.randn(64, 6)
table[:, 5] = (table[:, 0] + table[:, 1] > 0).float()
x, y = table, table[:, 5:]
net = nn.Sequential(nn.Linear(x.shape[1], 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.Adam(net.parameters(), lr=1e-2)
for _ in range(8):
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(net(x), y)  # !
    loss.backward()
    opt.step()
""",
        (("x, y = table, table[:, 5:]", "x, y = table[:, :5], table[:, 5:]"),),
    ),
    Mistake(
        "activation of nothing",
        "result-unused",
        "x",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 24), nn.Linear(24, 3)
    def forward(self, x):
        x = self.a(x)
        F.relu(x)  # !
        return self.b(x)
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (("        F.relu(x)  # !", "        x = F.relu(x)"),),
    ),
    Mistake(
        "a layer made in forward",
        "unregistered-module",
        "Linear in forward of net",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 24)
    def forward(self, x):
        x = F.relu(self.a(x))
        head = nn.Linear(24, 3)  # !
        return head(x)
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
""",
        (
            (
                "    def forward(self, x):",
                """\
        self.head = nn.Linear(24, 3)
    def forward(self, x):""",
            ),
            (
                """\
        head = nn.Linear(24, 3)  # !
        return head(x)""",
                "        return self.head(x)",
            ),
        ),
    ),
    Mistake(
        "gradients scaled twice by the batch",
        "softmax-before-cross-entropy",
        "softmax",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    opt.zero_grad()
    out = net(x)
    loss = F.cross_entropy(out.softmax(1), y)  # !
    loss.backward()
    opt.step()
""",
        (("    loss = F.cross_entropy(out.softmax(1), y)  # !", "    loss = F.cross_entropy(out, y)"),),
    ),
    Mistake(
        "accuracy of the wrong dimension",
        "argmax-dimension",
        "argmax",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    opt.zero_grad()
    out = net(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    opt.step()
    with torch.no_grad():
        acc = (out.argmax(0)[:3] == y[:3]).float().mean()  # !
""",
        (
            (
                "        acc = (out.argmax(0)[:3] == y[:3]).float().mean()  # !",
                "        acc = (out.argmax(1)[:3] == y[:3]).float().mean()",
            ),
        ),
    ),
    Mistake(
        "detached hidden features",
        "no-gradient",
        "body.weight",
        """\
body, head = nn.Linear(6, 24), nn.Linear(24, 3)
opt = optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    features = torch.relu(body(x)).detach()  # !
    loss = F.cross_entropy(head(features), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    features = torch.relu(body(x)).detach()  # !", "    features = torch.relu(body(x))"),),
    ),
    Mistake(
        "jensen with a wrong input",
        "kl-without-log",
        "kl_div",
        """\
a, b = nn.Linear(6, 3), nn.Linear(6, 3)
opt = optim.Adam([*a.parameters(), *b.parameters()], lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    p, q = F.softmax(a(x), 1), F.softmax(b(x), 1).detach()
    loss = F.cross_entropy(b(x), y) + F.kl_div(p, q, reduction="batchmean")  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                '    loss = F.cross_entropy(b(x), y) + F.kl_div(p, q, reduction="batchmean")  # !',
                '    loss = F.cross_entropy(b(x), y) + F.kl_div(p.log(), q, reduction="batchmean")',
            ),
        ),
    ),
    Mistake(
        "means of the test set",
        "train-while-evaluating",
        "net",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    with torch.no_grad():
        val = F.cross_entropy(net(x[:20]), y[:20]).item()  # !
""",
        (
            (
                "        val = F.cross_entropy(net(x[:20]), y[:20]).item()  # !",
                """\
        net.eval()
        val = F.cross_entropy(net(x[:20]), y[:20]).item()
        net.train()""",
            ),
        ),
    ),
    Mistake(
        "parameters of a list that only one optimizer knows",
        "unregistered-module",
        "net.experts",
        """\
class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 2)
        self.experts = [nn.Linear(6, 3) for _ in range(2)]  # !
    def forward(self, x):
        w = self.gate(x).softmax(-1)
        return sum(w[:, i : i + 1] * e(x) for i, e in enumerate(self.experts))
net = MoE()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "        self.experts = [nn.Linear(6, 3) for _ in range(2)]  # !",
                "        self.experts = nn.ModuleList([nn.Linear(6, 3) for _ in range(2)])",
            ),
        ),
    ),
    Mistake(
        "normalised input written to a copy",
        "result-unused",
        "x",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
opt = optim.Adam(net.parameters(), lr=1e-2)
raw = torch.rand(48, 6) * 255
y = raw[:, :3].argmax(1)
for _ in range(6):
    x = raw.clone()
    x.div(255).sub(0.5)  # !
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    x.div(255).sub(0.5)  # !", "    x = x.div(255).sub(0.5)"),),
    ),
]
