"""Mistakes in regressions: targets out of reach, penalties, lines without effect."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

REGRESSION_MISTAKES = [
    Mistake(
        "a rectified prediction of negative values",
        "target-out-of-range",
        "relu",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(5, 16), nn.Linear(16, 1)
    def forward(self, x):
        x = F.relu(self.fc1(x))
        return F.relu(self.fc2(x))
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 5)
t = x.sum(1, keepdim=True)
for _ in range(8):
    opt.zero_grad()
    loss = F.mse_loss(net(x), t)  # !
    loss.backward()
    opt.step()
""",
        (("        return F.relu(self.fc2(x))", "        return self.fc2(x)"),),
    ),
    Mistake(
        "a sigmoid cannot reach the targets",
        "target-out-of-range",
        "sigmoid",
        """\
ae = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8),
    nn.Sigmoid())
opt = optim.Adam(ae.parameters(), lr=1e-2)
x = torch.randn(64, 8)
x = (x - x.mean(0)) / x.std(0)
for _ in range(8):
    opt.zero_grad()
    out = ae(x)
    loss = F.mse_loss(out, x)  # !
    loss.backward()
    opt.step()
""",
        (("    nn.Sigmoid())", "    nn.Identity())"),),
    ),
    Mistake(
        "a scaled parameter is no parameter",
        "not-a-parameter",
        "net.w",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 8)
        self.w = nn.Parameter(torch.randn(8, 1)) * 0.1  # !
    def forward(self, x):
        return torch.tanh(self.fc(x)) @ self.w
net = Net()
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(40, 5)
t = x.sum(1, keepdim=True)
for _ in range(6):
    opt.zero_grad()
    loss = F.mse_loss(net(x), t)
    loss.backward(retain_graph=True)
    opt.step()
""",
        (
            (
                "        self.w = nn.Parameter(torch.randn(8, 1)) * 0.1  # !",
                "        self.w = nn.Parameter(torch.randn(8, 1) * 0.1)",
            ),
            ("    loss.backward(retain_graph=True)", "    loss.backward()"),
        ),
    ),
    Mistake(
        "a lasso without absolute values",
        "penalty-without-limit",
        "penalty",
        """\
net = nn.Linear(5, 1)
opt = optim.SGD(net.parameters(), lr=1e-2)
x = torch.randn(40, 5)
t = x.sum(1, keepdim=True)
for _ in range(8):
    l1 = sum(p.sum() for p in net.parameters())  # !
    loss = F.mse_loss(net(x), t) + 1e-2 * l1
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    l1 = sum(p.sum() for p in net.parameters())  # !",
                "    l1 = sum(p.abs().sum() for p in net.parameters())",
            ),
        ),
    ),
    Mistake(
        "an auxiliary loss that is added to nothing",
        "result-unused",
        "loss",
        """\
body, head, aux_head = nn.Linear(5, 16), nn.Linear(16, 1), nn.Linear(16, 2)
opt = optim.Adam([*body.parameters(), *head.parameters(), *aux_head.parameters()], lr=1e-2)
x = torch.randn(40, 5)
t, c = x.sum(1, keepdim=True), (x[:, 0] > 0).long()
for _ in range(6):
    h = torch.tanh(body(x))
    loss = F.mse_loss(head(h), t)
    aux = F.cross_entropy(aux_head(h), c)
    loss + 0.3 * aux  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    loss + 0.3 * aux  # !", "    loss = loss + 0.3 * aux"),),
    ),
    Mistake(
        "prices as targets",
        "target-not-normalized",
        "target",
        """\
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(64, 5)
price = 250000 + 40000 * x.sum(1, keepdim=True)
for _ in range(8):
    opt.zero_grad()
    loss = F.mse_loss(net(x), price)  # !
    loss.backward()
    opt.step()
""",
        (
            (
                "for _ in range(8):",
                """\
price = (price - price.mean()) / price.std()
for _ in range(8):""",
            ),
        ),
    ),
    Mistake(
        "a clamp before the loss",
        "clamped-prediction",
        "clamp",
        """\
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 5)
t = torch.sigmoid(2 * x.sum(1, keepdim=True))
for _ in range(8):
    opt.zero_grad()
    pred = net(x).clamp(0, 1)  # !
    loss = F.mse_loss(pred, t)
    loss.backward()
    opt.step()
""",
        (("    pred = net(x).clamp(0, 1)  # !", "    pred = torch.sigmoid(net(x))"),),
    ),
    Mistake(
        "weight decay of an unsquared norm minus",
        "penalty-without-limit",
        "penalty",
        """\
net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
opt = optim.SGD(net.parameters(), lr=1e-2)
x = torch.randn(40, 5)
t = x.sum(1, keepdim=True)
for _ in range(8):
    l2 = sum(p.pow(2).sum() for p in net.parameters())
    loss = F.mse_loss(net(x), t) - 1e-3 * l2  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    loss = F.mse_loss(net(x), t) - 1e-3 * l2  # !", "    loss = F.mse_loss(net(x), t) + 1e-3 * l2"),),
    ),
    Mistake(
        "attention without its mask argument",
        "result-unused",
        "s",
        """\
class Att(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, -1)
        s = q @ k.transpose(1, 2) / 4
        s.masked_fill(mask == 0, float("-inf"))  # !
        return self.out(s.softmax(-1) @ v)
net = Att()
opt = optim.Adam(net.parameters(), lr=1e-3)
x, mask = torch.randn(8, 10, 16), torch.tril(torch.ones(10, 10))
for _ in range(6):
    opt.zero_grad()
    loss = F.mse_loss(net(x, mask)[:, :-1], x[:, 1:])
    loss.backward()
    opt.step()
""",
        (
            (
                '        s.masked_fill(mask == 0, float("-inf"))  # !',
                '        s = s.masked_fill(mask == 0, float("-inf"))',
            ),
        ),
    ),
    Mistake(
        "noise of one shape for all samples",
        "noisy-target",
        "target",
        """\
net = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 8))
opt = optim.Adam(net.parameters(), lr=1e-3)
data = torch.randn(64, 8)
for _ in range(8):
    t = torch.rand(64, 1)
    noise = torch.randn_like(data)
    xt = (1 - t).sqrt() * data + t.sqrt() * noise
    loss = F.mse_loss(net(torch.cat([xt, t], 1)), xt)  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = F.mse_loss(net(torch.cat([xt, t], 1)), xt)  # !",
                "    loss = F.mse_loss(net(torch.cat([xt, t], 1)), noise)",
            ),
        ),
    ),
]
