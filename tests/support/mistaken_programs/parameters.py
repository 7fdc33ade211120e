"""Mistakes about parameters: without gradients, without an optimizer, replaced, not registered."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, LOOP, Mistake

AUTOENCODER = """\
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 6), nn.Tanh())
        self.decoder = nn.Linear(6, 8)
    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code)

x = torch.randn(32, 8)
ae = Autoencoder()
opt = optim.Adam(ae.parameters(), lr=1e-2)
for _ in range(6):
    loss = F.mse_loss(ae(x), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

PARAMETER_MISTAKES = [
    Mistake(
        "a layer that forward does not use", "no-gradient", "net.fc3.weight",
        CLASSIFIER.replace(
            "        self.fc2 =", "        self.fc3 = nn.Linear(24, 24)  # !\n        self.fc2 ="
        ) + LOOP,
        (("        self.fc3 = nn.Linear(24, 24)  # !\n", ""),),
    ),
    Mistake(
        "detach in the middle", "no-gradient", "ae.encoder.0.weight",
        AUTOENCODER.replace("self.encoder(x)", "self.encoder(x).detach()  # !"),
        ((".detach()", ""),),
    ),
    Mistake(
        ".data in the middle", "no-gradient", "ae.encoder.0.weight",
        AUTOENCODER.replace("self.encoder(x)", "self.encoder(x).data  # !"),
        ((".data  # !", ""),),
    ),
    Mistake(
        "through NumPy", "no-gradient", "ae.encoder.0.weight",
        AUTOENCODER.replace("self.encoder(x)", "torch.tensor(self.encoder(x).detach().numpy() * 1.0)  # !"),
        (("torch.tensor(self.encoder(x).detach().numpy() * 1.0)", "self.encoder(x) * 1.0"),),
    ),
    Mistake(
        "encoder under no_grad", "no-gradient", "ae.encoder.0.weight",
        AUTOENCODER.replace(
            "        code = self.encoder(x)",
            "        with torch.no_grad():  # !\n            code = self.encoder(x)",
        ),
        (("with torch.no_grad():", "if True:"),),
    ),
    Mistake(
        "a result that the loss does not use", "no-gradient", "net.aux.weight",
        """\
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.main = nn.Linear(8, 2)
        self.aux = nn.Linear(8, 2)
    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.main(h), self.aux(h)  # !
net = Two()
opt = optim.SGD(net.parameters(), lr=0.1)
x, y, z = torch.randn(20, 4), torch.randn(20, 2), torch.randn(20, 2)
for _ in range(6):
    opt.zero_grad()
    main, aux = net(x)
    loss = F.mse_loss(main, y) + 0 * 1.0
    loss.backward()
    opt.step()
""",
        (("+ 0 * 1.0", "+ 0.3 * F.mse_loss(aux, z)"),),
    ),
    Mistake(
        "optimizer of one part alone", "not-in-optimizer", "net.fc1.weight",
        CLASSIFIER.replace(
            "optim.SGD(net.parameters(), lr=0.1)", "optim.SGD(net.fc2.parameters(), lr=0.1)  # !"
        ) + LOOP,
        (("net.fc2.parameters()", "net.parameters()"),),
    ),
    Mistake(
        "optimizer before the new head", "optimizer-before-parameters", "optimizer",
        CLASSIFIER.replace(
            "optimizer = optim.SGD(net.parameters(), lr=0.1)",
            "optimizer = optim.SGD(net.parameters(), lr=0.1)  # !\nnet.fc2 = nn.Linear(24, 3)",
        ) + LOOP,
        (
            ("optimizer = optim.SGD(net.parameters(), lr=0.1)  # !\nnet.fc2 = nn.Linear(24, 3)",
             "net.fc2 = nn.Linear(24, 3)\noptimizer = optim.SGD(net.parameters(), lr=0.1)"),
        ),
    ),
    Mistake(
        "layers in a list", "unregistered-module", "net.layers",
        """\
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(6, 6) for _ in range(3)]  # !
        self.head = nn.Linear(6, 2)
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)
net = Deep()
opt = optim.Adam(net.parameters(), lr=1e-2)
x, y = torch.randn(32, 6), torch.randint(0, 2, (32,))
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("[nn.Linear(6, 6) for _ in range(3)]", "nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])"),),
    ),
    Mistake(
        "a tensor in place of a Parameter", "not-a-parameter", "scale.factor",
        """\
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.factor = torch.ones(3, requires_grad=True)  # !
    def forward(self, x):
        return self.linear(x) * self.factor
scale = Scale()
opt = optim.SGD(scale.parameters(), lr=0.1)
x, y = torch.randn(16, 3), torch.randn(16, 3)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(scale(x), y).backward()
    opt.step()
""",
        (("torch.ones(3, requires_grad=True)", "nn.Parameter(torch.ones(3))"),),
    ),
    Mistake(
        "a layer made anew in forward", "unregistered-module", "Linear",
        """\
class Net(nn.Module):  # a layer for any width
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 2)
    def forward(self, x):
        h = torch.tanh(self.first(x))
        return nn.Linear(8, 2)(h)  # !
net = Net()
opt = optim.SGD([*net.first.parameters()], lr=0.1)
x, y = torch.randn(32, 6), torch.randint(0, 2, (32,))
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("nn.Linear(8, 2)(h)", "self.second(h)"), ("[*net.first.parameters()]", "net.parameters()")),
    ),
    Mistake(
        "a loss made anew", "loss-independent-of-model", "optimizer",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    out = net(x)
    loss = F.cross_entropy(out, y)
    loss = torch.tensor(loss.item(), requires_grad=True)  # !
    loss.backward()
    optimizer.step()
""",
        (("    loss = torch.tensor(loss.item(), requires_grad=True)  # !\n", ""),),
    ),
    Mistake(
        "frozen parameters alone", "frozen-parameters", "net.fc1.weight",
        CLASSIFIER.replace("optimizer = optim.SGD(net.parameters(), lr=0.1)", """\
for p in net.fc1.parameters():
    p.requires_grad = False
groups = [{"params": net.fc1.parameters()}, {"params": net.fc2.parameters()}]
optimizer = optim.SGD(groups, lr=0.1)  # !""") + LOOP,
        (("p.requires_grad = False", "p.requires_grad = True"),),
    ),
    Mistake(
        "backward forgotten", "no-backward", "optimizer",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    value = loss.item()
    optimizer.step()  # !
""",
        (("    value = loss.item()\n", "    loss.backward()\n"),),
    ),
    Mistake(
        "dead units", "dead-units", "net",
        CLASSIFIER.replace(
            "        self.fc2 =",
            "        nn.init.constant_(self.fc1.bias, -50.0)  # !\n        self.fc2 =",
        ) + LOOP,
        (("-50.0", "0.1"),),
    ),
    Mistake(
        "a deep net of sigmoids", "vanishing-gradients", "net.0.weight",
        """\
layers = []
for i in range(14):
    layers += [nn.Linear(8, 8), nn.Sigmoid()]
net = nn.Sequential(*layers, nn.Linear(8, 2))  # !
opt = optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(32, 8), torch.randint(0, 2, (32,))
for _ in range(6):
    opt.zero_grad()
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("range(14)", "range(2)"),),
    ),
    Mistake(
        "weights that are far too large", "exploding-gradients", "net",
        """\
net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
for p in net.parameters():
    nn.init.normal_(p, std=2.0)  # !
opt = optim.Adam(net.parameters(), lr=1e-4)
x, y = torch.randn(32, 8), torch.randn(32, 1)
for _ in range(6):
    opt.zero_grad()
    F.mse_loss(net(x), y).backward()
    opt.step()
""",
        (("std=2.0", "std=0.1"),),
    ),
]  # fmt: skip
