"""Mistakes about what a loss is computed from: activations written out, wrong targets, cut graphs."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, REGRESSION, Mistake

HISTORY_MISTAKES = [
    Mistake(
        "one-hot float targets as indices by max", "labels-constant", "target",
        CLASSIFIER + """\
onehot = F.one_hot(y, 3)
for _ in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), onehot.max(1)[0])  # !
    loss.backward()
    optimizer.step()
""",
        (("onehot.max(1)[0]", "onehot.argmax(1)"),),
    ),
    Mistake(
        "bce over probabilities rounded", "zero-gradient", "model.0.weight",
        REGRESSION + """\
b = (t > 0).float()[:, None]
for _ in range(6):
    opt.zero_grad()
    p = torch.sigmoid(model(x)).round()  # !
    F.binary_cross_entropy(p, b).backward()
    opt.step()
""",
        ((".round()", ""),),
    ),
    Mistake(
        "torch.tensor of a loss", "loss-independent-of-model", "optimizer",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    losses = [F.cross_entropy(net(x[:24]), y[:24]), F.cross_entropy(net(x[24:]), y[24:])]
    loss = torch.tensor([l.item() for l in losses], requires_grad=True).mean()  # !
    loss.backward()
    optimizer.step()
""",
        (("torch.tensor([l.item() for l in losses], requires_grad=True).mean()",
         "torch.stack(losses).mean()"),),
    ),
    Mistake(
        "double softmax in loss and model by hand", "softmax-before-cross-entropy", "softmax",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 24)
        self.fc2 = nn.Linear(24, 3)
    def forward(self, x):
        z = self.fc2(F.relu(self.fc1(x)))
        return z.exp() / z.exp().sum(1, keepdim=True)  # !

x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        (("        return z.exp() / z.exp().sum(1, keepdim=True)  # !", "        return z"),),
    ),
    Mistake(
        "sigmoid by hand before BCEWithLogits", "sigmoid-before-bce-with-logits", "sigmoid",
        REGRESSION + """\
b = (t > 0).float()[:, None]
for _ in range(6):
    opt.zero_grad()
    out = 1 / (1 + torch.exp(-model(x)))  # !
    F.binary_cross_entropy_with_logits(out, b).backward()
    opt.step()
""",
        (("1 / (1 + torch.exp(-model(x)))", "model(x)"),),
    ),
    Mistake(
        "softmax over the batch outside of the model", "softmax-dimension", "softmax",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    p = F.softmax(net(x), dim=0)  # !
    loss = -(p + 1e-9).log()[torch.arange(48), y].mean()
    loss.backward()
    optimizer.step()
""",
        (("dim=0", "dim=1"),),
    ),
    Mistake(
        "nll of log of softmax over batch", "softmax-dimension", "log_softmax",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    logp = torch.log_softmax(net(x), 0)  # !
    F.nll_loss(logp, y).backward()
    optimizer.step()
""",
        (("net(x), 0)", "net(x), 1)"),),
    ),
    Mistake(
        "kl_div of probabilities", "kl-without-log", "kl_div",
        CLASSIFIER + """\
teacher = torch.softmax(torch.randn(48, 3), 1)
for _ in range(6):
    optimizer.zero_grad()
    p = torch.softmax(net(x), 1)
    F.kl_div(p, teacher, reduction='batchmean').backward()  # !
    optimizer.step()
""",
        (("torch.softmax(net(x), 1)", "torch.log_softmax(net(x), 1)"),),
    ),
    Mistake(
        "mean over wrong dim keeps broadcasting", "broadcast-in-loss", "model(x) and t",
        REGRESSION + """\
for _ in range(6):
    opt.zero_grad()
    diff = model(x) - t  # !
    diff.pow(2).mean(0).mean().backward()
    opt.step()
""",
        (("model(x) - t", "model(x).squeeze(1) - t"),),
    ),
    Mistake(
        "loss weighted by zero", "zero-gradient", "net.fc1.weight",
        CLASSIFIER + """\
weight = torch.zeros(3)
for _ in range(6):
    optimizer.zero_grad()
    loss = (F.cross_entropy(net(x), y, reduction='none') * weight[y]).mean()  # !
    loss.backward()
    optimizer.step()
""",
        (("torch.zeros(3)", "torch.ones(3)"),),
    ),
    Mistake(
        "item in the forward", "no-gradient", "net.fc1.weight",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 24)
        self.fc2 = nn.Linear(24, 3)
    def forward(self, x):
        h = F.relu(self.fc1(x))
        h = torch.tensor(h.tolist())  # !
        return self.fc2(h)

x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        (("        h = torch.tensor(h.tolist())  # !\n", ""),),
    ),
    Mistake(
        "np round trip in the loss", "loss-independent-of-model", "optimizer",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    scores = torch.from_numpy(net(x).detach().numpy()).requires_grad_()  # !
    F.cross_entropy(scores, y).backward()
    optimizer.step()
""",
        (("torch.from_numpy(net(x).detach().numpy()).requires_grad_()", "net(x)"),),
    ),
    Mistake(
        "no_grad around forward, requires_grad_ on loss", "loss-independent-of-model", "optimizer",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    with torch.no_grad():  # !
        scores = net(x)
    loss = F.cross_entropy(scores, y).requires_grad_()
    loss.backward()
    optimizer.step()
""",
        ((("    with torch.no_grad():  # !\n"
         "        scores = net(x)\n"
         "    loss = F.cross_entropy(scores, y).requires_grad_()"),
         ("    scores = net(x)\n"
         "    loss = F.cross_entropy(scores, y)")),),
    ),
    Mistake(
        "require_grad typo", "unread-attribute", "net.fc1.weight",
        CLASSIFIER + """\
for p in net.fc1.parameters():
    p.require_grad = False  # !
optimizer = optim.SGD(net.fc2.parameters(), lr=0.1)
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        (("p.require_grad = False", "p.requires_grad = False"),),
    ),
    Mistake(
        "freeze by module attribute", "unread-attribute", "net.fc1",
        CLASSIFIER + """\
net.fc1.requires_grad = False  # !
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        (("net.fc1.requires_grad = False", "net.fc1.requires_grad_(False)"),),
    ),
    Mistake(
        "hidden state not detached, retain_graph", "step-forgotten", "optimizer",
        """\
rnn, out = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 1)
opt = optim.Adam([*rnn.parameters(), *out.parameters()], lr=0.01)
state = None
for _ in range(6):
    opt.zero_grad()
    h, state = rnn(torch.randn(4, 5, 3), state)
    out(h).square().mean().backward(retain_graph=True)  # !
    opt.zero_grad()
""",
        ((("    out(h).square().mean().backward(retain_graph=True)  # !\n"
         "    opt.zero_grad()"),
         ("    state = tuple(s.detach() for s in state)\n"
         "    out(h).square().mean().backward()\n"
         "    opt.step()")),),
    ),
]  # fmt: skip
