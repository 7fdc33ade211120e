"""Mistakes about layers: one in several places, options of other libraries, norms over the batch."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, LOOP, Mistake

LAYER_MISTAKES = [
    Mistake(
        "one layer times n",
        "same-layer-repeated",
        "blocks",
        """\
class Net(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.inp = nn.Linear(5, 16)
        self.blocks = nn.ModuleList([nn.Linear(16, 16)] * n)  # !
        self.out = nn.Linear(16, 2)
    def forward(self, x):
        x = self.inp(x).relu()
        for b in self.blocks:
            x = b(x).relu()
        return self.out(x)
net = Net()
opt = optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(40, 5)
y = (x[:, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("[nn.Linear(16, 16)] * n", "[nn.Linear(16, 16) for _ in range(n)]"),),
    ),
    Mistake(
        "Sequential of one block repeated",
        "same-layer-repeated",
        "trunk",
        """\
block = nn.Sequential(nn.Linear(12, 12), nn.ReLU())
trunk = nn.Sequential(nn.Linear(4, 12), *[block for _ in range(3)], nn.Linear(12, 1))  # !
opt = optim.Adam(trunk.parameters(), lr=0.01)
x = torch.randn(40, 4)
t = x.prod(1, keepdim=True)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(trunk(x), t).backward()
    opt.step()
""",
        (("*[block for _ in range(3)]", "*[nn.Sequential(nn.Linear(12, 12), nn.ReLU()) for _ in range(3)]"),),
    ),
    Mistake(
        "in-place ReLU changes the shortcut",
        "in-place-residual",
        "relu",
        """\
class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.lin = nn.Linear(c, c)
        self.act = nn.ReLU(inplace=True)
    def forward(self, x):
        out = self.lin(self.act(x))  # !
        return out + x
model = nn.Sequential(nn.Linear(4, 8), Block(8), Block(8), nn.Linear(8, 1))
opt = optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(32, 4)
t = x.sum(1, keepdim=True)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(model(x), t).backward()
    opt.step()
""",
        (("inplace=True", "inplace=False"),),
    ),
    Mistake(
        "a head put in after the optimizer",
        "optimizer-before-parameters",
        "opt",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 16)
        self.fc = nn.Linear(16, 10)
    def forward(self, x):
        return self.fc(torch.tanh(self.body(x)))
net = Net()
opt = optim.SGD(net.parameters(), lr=0.1)  # !
net.fc = nn.Linear(16, 2)
x = torch.randn(40, 6)
y = (x[:, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (
            (
                "opt = optim.SGD(net.parameters(), lr=0.1)  # !\nnet.fc = nn.Linear(16, 2)",
                "net.fc = nn.Linear(16, 2)\nopt = optim.SGD(net.parameters(), lr=0.1)",
            ),
        ),
    ),
    Mistake(
        "dropout with the probability to keep",
        "dropout-too-large",
        "drop",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 32)
        self.drop = nn.Dropout(0.95)  # !
        self.b = nn.Linear(32, 3)
    def forward(self, x):
        return self.b(self.drop(F.relu(self.a(x))))
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
net = Net()
opt = optim.Adam(net.parameters(), lr=0.01)
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("0.95", "0.05"),),
    ),
    Mistake(
        "momentum of BatchNorm as in Keras",
        "batch-norm-momentum",
        "model.1",
        """\
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16, momentum=0.99), nn.ReLU(), nn.Linear(16, 2))  # !
opt = optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(48, 6)
y = (x[:, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
""",
        ((", momentum=0.99", ", momentum=0.01"),),
    ),
    Mistake(
        "layer norm over the batch",
        "norm-over-batch",
        "layer_norm",
        CLASSIFIER.replace(
            "        return self.fc2(F.relu(self.fc1(x)))",
            "        h = self.fc1(x)\n        h = F.layer_norm(h, h.shape)  # !\n        return self.fc2(F.relu(h))",
        )
        + LOOP,
        (("F.layer_norm(h, h.shape)", "F.layer_norm(h, h.shape[1:])"),),
    ),
    Mistake(
        "no activation between layers",
        "no-activation",
        "fc2",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 24)
        self.fc2 = nn.Linear(24, 24)
        self.fc3 = nn.Linear(24, 3)
    def forward(self, x):
        x = self.fc1(x)
        x = self.fc2(x)  # !
        return self.fc3(F.relu(x))
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1)
"""
        + LOOP,
        (("x = self.fc1(x)", "x = F.relu(self.fc1(x))"),),
    ),
    Mistake(
        "a copy of the model is trained",
        "optimizer-before-parameters",
        "optimizer",
        CLASSIFIER.replace("lr=0.1)", "lr=0.1)  # !")
        + """\
import copy
net = copy.deepcopy(net)
for epoch in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        (("net = copy.deepcopy(net)", "best = copy.deepcopy(net)"),),
    ),
    Mistake(
        "dropout on the logits",
        "dropout-on-output",
        "net.3",
        """\
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3), nn.Dropout(0.5))  # !
opt = optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("nn.ReLU(), nn.Linear(16, 3), nn.Dropout(0.5)", "nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)"),),
    ),
    Mistake(
        "all weights drawn from zero to one",
        "exploding-gradients",
        "net",
        """\
net = nn.Sequential(*[m for _ in range(5) for m in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 1))
for p in net.parameters():
    nn.init.uniform_(p)  # !
opt = optim.Adam(net.parameters(), lr=0.001)
x = torch.randn(40, 64)
t = x.sum(1, keepdim=True)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(net(x), t).backward()
    opt.step()
""",
        (("    nn.init.uniform_(p)", "    nn.init.uniform_(p, -0.1, 0.1)"),),
    ),
    Mistake(
        "a layer as a default argument",
        "same-layer-repeated",
        "mix",
        """\
class Block(nn.Module):
    def __init__(self, mix=nn.Linear(8, 8)):  # !
        super().__init__()
        self.mix = mix
        self.out = nn.Linear(8, 8)
    def forward(self, x):
        return x + self.out(F.relu(self.mix(x)))
net = nn.Sequential(nn.Linear(4, 8), Block(), Block(), nn.Linear(8, 1))
opt = optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(32, 4)
t = x.sum(1, keepdim=True)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(net(x), t).backward()
    opt.step()
""",
        (("mix=nn.Linear(8, 8)):", "mix=None):"), ("self.mix = mix", "self.mix = mix or nn.Linear(8, 8)")),
    ),
    Mistake(
        "a layer of the class",
        "unregistered-module",
        "hidden",
        """\
class Net(nn.Module):
    hidden = nn.Linear(4, 8)  # !
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)
    def forward(self, x):
        return self.out(torch.relu(Net.hidden(x)))
net = Net()
opt = optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(40, 4)
y = (x[:, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (
            ("    hidden = nn.Linear(4, 8)  # !\n", ""),
            ("        self.out =", "        self.hidden = nn.Linear(4, 8)\n        self.out ="),
            ("Net.hidden(x)", "self.hidden(x)"),
        ),
    ),
    Mistake(
        "a scaled Parameter",
        "not-a-parameter",
        "scale",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.scale = nn.Parameter(torch.ones(8)) * 0.1  # !
        self.out = nn.Linear(8, 2)
    def forward(self, x):
        return self.out(torch.tanh(self.body(x)) * self.scale)
net = Net()
opt = optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(40, 4)
y = (x[:, 0] > 0).long()
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward(retain_graph=True)
    opt.step()
""",
        (("nn.Parameter(torch.ones(8)) * 0.1", "nn.Parameter(torch.ones(8) * 0.1)"), ("(retain_graph=True)", "()")),
    ),
    Mistake(
        "embeddings normalised over the batch",
        "normalize-dimension",
        "normalize",
        """\
enc = nn.Linear(6, 8)
opt = optim.Adam(enc.parameters(), lr=0.01)
a, b = torch.randn(16, 6), torch.randn(16, 6)
for _ in range(6):
    za, zb = F.normalize(enc(a), dim=0), F.normalize(enc(b), dim=0)  # !
    loss = F.cross_entropy(za @ zb.T / 0.1, torch.arange(16))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "F.normalize(enc(a), dim=0), F.normalize(enc(b), dim=0)",
                "F.normalize(enc(a), dim=1), F.normalize(enc(b), dim=1)",
            ),
        ),
    ),
]
