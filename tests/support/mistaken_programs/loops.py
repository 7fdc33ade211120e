"""Mistakes about training loops: clearing, order, modes, rates, data, memory."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, LOOP, REGRESSION, Mistake

DROPOUT = """\
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
opt = optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(40, 4), torch.randint(0, 2, (40,))
"""
LOOP_MISTAKES = [
    Mistake(
        "zero_grad forgotten", "zero-grad-forgotten", "optimizer",
        CLASSIFIER + """\
for _ in range(6):
    loss = F.cross_entropy(net(x), y)
    loss.backward()  # !
    optimizer.step()
""",
        (("    loss.backward()  # !", "    optimizer.zero_grad()\n    loss.backward()"),),
    ),
    Mistake(
        "zero_grad between backward and step", "zero-grad-before-step", "optimizer",
        CLASSIFIER + """\
for _ in range(6):
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.zero_grad()  # !
    optimizer.step()
""",
        (("    loss.backward()\n    optimizer.zero_grad()  # !", "    optimizer.zero_grad()\n    loss.backward()"),),
    ),
    Mistake(
        "step forgotten", "step-forgotten", "optimizer",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()  # !
""",
        (("    loss.backward()  # !", "    loss.backward()\n    optimizer.step()"),),
    ),
    Mistake(
        "evaluation mode while training", "eval-while-training", "model",
        DROPOUT + """\
def evaluate():
    model.eval()  # !
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()
for epoch in range(3):
    evaluate()
    for _ in range(3):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
""",
        (("    evaluate()\n", "    evaluate()\n    model.train()\n"),),
    ),
    Mistake(
        "training mode while evaluating", "train-while-evaluating", "model",
        DROPOUT + """\
for epoch in range(3):
    model.train()
    for _ in range(3):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
    with torch.no_grad():
        scores = model(x)  # !
        accuracy = (scores.argmax(1) == y).float().mean().item()
""",
        (("    with torch.no_grad():\n", "    model.eval()\n    with torch.no_grad():\n"),),
    ),
    Mistake(
        "F.dropout without training=", "dropout-in-evaluation", "net",
        CLASSIFIER.replace(
            "        return self.fc2(F.relu(self.fc1(x)))",
            "        h = F.dropout(F.relu(self.fc1(x)), 0.2)  # !\n        return self.fc2(h)",
        ) + LOOP + """\
net.eval()
with torch.no_grad():
    accuracy = (net(x).argmax(1) == y).float().mean()
""",
        (("0.2)", "0.2, training=self.training)"),),
    ),
    Mistake(
        "layer norm of one value", "norm-of-one-value", "net.1",
        """\
net = nn.Sequential(nn.Linear(4, 1), nn.LayerNorm(1))  # !
opt = optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(24, 4)
t = x.sum(1, keepdim=True)
for _ in range(5):
    opt.zero_grad()
    F.mse_loss(net(x), t).backward()
    opt.step()
""",
        (("nn.Linear(4, 1), nn.LayerNorm(1)", "nn.LayerNorm(4), nn.Linear(4, 1)"),),
    ),
    Mistake(
        "a learning rate of 0", "zero-learning-rate", "optimizer",
        CLASSIFIER.replace("lr=0.1)", "lr=0.0)  # !") + LOOP,
        (("lr=0.0", "lr=0.1"),),
    ),
    Mistake(
        "a learning rate that is too large", "learning-rate-too-large", "opt",
        REGRESSION.replace("Adam", "SGD").replace("lr=0.01)", "lr=30.0)  # !") + """\
for _ in range(10):
    opt.zero_grad()
    loss = F.mse_loss(model(x)[:, 0], t)
    loss.backward()
    opt.step()
""",
        (("lr=30.0", "lr=0.01"),),
    ),
    Mistake(
        "a learning rate that changes nothing", "learning-rate-too-small", "optimizer",
        CLASSIFIER.replace("lr=0.1)", "lr=1e-12)  # !") + LOOP,
        (("lr=1e-12", "lr=0.1"),),
    ),
    Mistake(
        "scheduler before optimizer", "scheduler-before-optimizer", "scheduler",
        """\
import warnings
warnings.simplefilter("ignore")
""" + CLASSIFIER + """\
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=30)
for epoch in range(4):
    scheduler.step()  # !
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
        (
            ("    scheduler.step()  # !\n", ""),
            ("    optimizer.step()\n", "    optimizer.step()\n    scheduler.step()\n"),
        ),
    ),
    Mistake(
        "scheduler of epochs in each batch", "learning-rate-vanishes", "optimizer",
        CLASSIFIER + """\
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
for i in range(16):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
    scheduler.step()  # !
""",
        (("    scheduler.step()  # !", "    if i % 8 == 7:\n        scheduler.step()"),),
    ),
    Mistake(
        "losses added up with their graphs", "graph-kept", "total",
        CLASSIFIER + """\
total = 0
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    total += loss  # !
""",
        (("total += loss", "total += loss.item()"),),
    ),
    Mistake(
        "losses added up ahead of backward", "graph-kept", "running",
        CLASSIFIER + """\
running = 0.0
for epoch in range(8):
    loss = F.cross_entropy(net(x), y)
    running = running + loss  # !
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        (("running + loss", "running + loss.detach()"),),
    ),
    Mistake(
        "losses in a list", "graph-kept", "history",
        CLASSIFIER + """\
history = []
for epoch in range(10):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    history.append(loss)  # !
""",
        (("history.append(loss)", "history.append(loss.item())"),),
    ),
    Mistake(
        "a baseline that carries graphs", "graph-carried", "baseline",
        """\
x, t = torch.randn(40, 5), torch.randn(40)
model = nn.Linear(5, 1)
opt = optim.Adam(model.parameters(), lr=0.01)
baseline = torch.zeros(())
for i in range(7):
    opt.zero_grad()
    error = (model(x)[:, 0] - t).square().mean()
    baseline = 0.9 * baseline + 0.1 * error  # !
    loss = error + 0.01 * baseline
    loss.backward(retain_graph=True)
    opt.step()
""",
        (("0.9 * baseline + 0.1 * error", "0.9 * baseline.detach() + 0.1 * error"),),
    ),
    Mistake(
        "images of 0 to 255", "input-not-normalized", "net",
        """\
images = torch.randint(0, 256, (32, 1, 8, 8))
labels = torch.randint(0, 3, (32,))
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
opt = optim.Adam(net.parameters(), lr=1e-3)
batch = images.float()
for _ in range(5):
    opt.zero_grad()
    out = net(batch)  # !
    F.cross_entropy(out, labels).backward()
    opt.step()
""",
        (("images.float()", "images.float() / 255"),),
    ),
    Mistake(
        "data in the order of its classes", "data-not-shuffled", "loader",
        """\
x = torch.cat([torch.randn(32, 4) + i for i in range(3)])
y = torch.arange(3).repeat_interleave(32)
loader = DataLoader(TensorDataset(x, y), batch_size=16)  # !
net = nn.Linear(4, 3)
opt = optim.SGD(net.parameters(), lr=0.05)
for epoch in range(2):
    for xb, yb in loader:
        opt.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        opt.step()
""",
        (("batch_size=16)", "batch_size=16, shuffle=True)"),),
    ),
    Mistake(
        "labels that are all 0", "labels-constant", "target",
        """\
class Rows(Dataset):
    def __init__(self):
        self.x = torch.randn(64, 4)
        self.y = (self.x[:, 0] > 0).long()
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return self.x[i], self.y[i] * 0
loader = DataLoader(Rows(), batch_size=16, shuffle=True)
net = nn.Linear(4, 2)
opt = optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:
    opt.zero_grad()
    loss = F.cross_entropy(net(xb), yb)  # !
    loss.backward()
    opt.step()
""",
        (("self.y[i] * 0", "self.y[i]"),),
    ),
    Mistake(
        "a new pass over the loader in each step", "same-batch", "next(iter(loader))",
        """\
x = torch.randn(64, 4)
y = (x[:, 0] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8)
net = nn.Linear(4, 2)
opt = optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    xb, yb = next(iter(loader))  # !
    opt.zero_grad()
    F.cross_entropy(net(xb), yb).backward()
    opt.step()
""",
        (("for _ in range(8):\n    xb, yb = next(iter(loader))  # !", "for xb, yb in loader:"),),
    ),
    Mistake(
        "a dataset that ignores its index", "same-sample", "Rows",
        """\
class Rows(Dataset):
    def __init__(self):
        self.x = torch.randn(64, 4)
        self.y = torch.arange(64) % 2
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return self.x[0], self.y[i]
loader = DataLoader(Rows(), batch_size=8)
net = nn.Linear(4, 2)
opt = optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:  # !
    opt.zero_grad()
    F.cross_entropy(net(xb), yb).backward()
    opt.step()
""",
        (("self.x[0]", "self.x[i]"),),
    ),
    Mistake(
        "the seed set in each step", "random-numbers-repeat", "manual_seed",
        """\
net = nn.Linear(4, 1)
opt = optim.SGD(net.parameters(), lr=0.05)
for i in range(8):
    torch.manual_seed(1)  # !
    x = torch.randn(16, 4)
    opt.zero_grad()
    F.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
    opt.step()
""",
        (("manual_seed(1)", "manual_seed(i)"),),
    ),
    Mistake(
        "the data set changed in place", "data-changed-in-place", "xb",
        """\
x = torch.rand(32, 4) + 1
y = torch.randn(32, 1)
net = nn.Linear(4, 1)
opt = optim.SGD(net.parameters(), lr=0.01)
for epoch in range(3):
    for i in range(0, 32, 8):
        xb, yb = x[i : i + 8], y[i : i + 8]
        xb -= 0.5  # !
        opt.zero_grad()
        F.mse_loss(net(xb), yb).backward()
        opt.step()
""",
        (("xb -= 0.5", "xb = xb - 0.5"),),
    ),
]  # fmt: skip
