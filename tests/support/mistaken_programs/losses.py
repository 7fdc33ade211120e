"""Mistakes about losses: shapes, probabilities, dimensions, reductions, types."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, LOOP, REGRESSION, Mistake

LOSS_MISTAKES = [
    Mistake(
        "softmax in forward, cross_entropy outside", "softmax-before-cross-entropy", "softmax",
        CLASSIFIER.replace(
            "        return self.fc2(F.relu(self.fc1(x)))",
            "        scores = self.fc2(F.relu(self.fc1(x)))\n        return torch.softmax(scores, dim=1)  # !",
        ) + LOOP,
        (("torch.softmax(scores, dim=1)", "scores"),),
    ),
    Mistake(
        "Softmax layer at the end of Sequential", "softmax-before-cross-entropy", "softmax",
        """\
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 5), nn.Softmax(dim=-1))  # !
criterion = nn.CrossEntropyLoss()
opt = optim.Adam(model.parameters(), lr=1e-2)
data, labels = torch.randn(30, 4), torch.randint(0, 5, (30,))
for _ in range(6):
    opt.zero_grad()
    out = model(data)
    criterion(out, labels).backward()
    opt.step()
""",
        ((", nn.Softmax(dim=-1)", ""),),
    ),
    Mistake(
        "log_softmax twice", "softmax-twice", "log_softmax",
        CLASSIFIER + """\
for epoch in range(6):
    optimizer.zero_grad()
    logs = F.log_softmax(net(x), dim=1)  # !
    loss = F.nll_loss(F.log_softmax(logs, dim=1), y)
    loss.backward()
    optimizer.step()
""",
        (("F.nll_loss(F.log_softmax(logs, dim=1), y)", "F.nll_loss(logs, y)"),),
    ),
    Mistake(
        "sigmoid before BCEWithLogitsLoss", "sigmoid-before-bce-with-logits", "sigmoid",
        """\
model = nn.Linear(4, 1)
loss_fn = nn.BCEWithLogitsLoss()
opt = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 4)
y = (x.sum(1, keepdim=True) > 0).float()
for _ in range(6):
    p = torch.sigmoid(model(x))  # !
    loss = loss_fn(p, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("torch.sigmoid(model(x))", "model(x)"),),
    ),
    Mistake(
        "ReLU on the logits", "relu-before-cross-entropy", "ReLU",
        CLASSIFIER.replace(
            "return self.fc2(F.relu(self.fc1(x)))", "return F.relu(self.fc2(F.relu(self.fc1(x))))  # !"
        ) + LOOP,
        (("F.relu(self.fc2(F.relu(self.fc1(x))))", "self.fc2(F.relu(self.fc1(x)))"),),
    ),
    Mistake(
        "nll_loss of probabilities", "nll-without-log", "nll_loss",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    probabilities = F.softmax(net(x), dim=-1)
    loss = F.nll_loss(probabilities, y)  # !
    loss.backward()
    optimizer.step()
""",
        (("F.nll_loss(probabilities, y)", "F.nll_loss(probabilities.log(), y)"),),
    ),
    Mistake(
        "softmax over the batch", "softmax-dimension", "log_softmax",
        CLASSIFIER + """\
for _ in range(6):
    optimizer.zero_grad()
    logs = F.log_softmax(net(x), dim=0)  # !
    F.nll_loss(logs, y).backward()
    optimizer.step()
""",
        (("dim=0", "dim=1"),),
    ),
    Mistake(
        "attention weights over the queries", "softmax-dimension", "softmax",
        """\
class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 8 ** 0.5
        weights = F.softmax(scores, dim=1)  # !
        return weights @ self.v(x)

net = Attention(8)
opt = optim.Adam(net.parameters(), lr=1e-3)
x, t = torch.randn(4, 6, 8), torch.randn(4, 6, 8)
for _ in range(5):
    opt.zero_grad()
    F.mse_loss(net(x), t).backward()
    opt.step()
""",
        (("dim=1)  # !", "dim=2)"),),
    ),
    Mistake(
        "one output with cross_entropy", "one-class", "cross_entropy",
        """\
model = nn.Linear(4, 1)
opt = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 4)
y = torch.zeros(32, dtype=torch.int64)
y2 = (x[:, 0] > 0).float()
for _ in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)  # !
    loss.backward()
    opt.step()
""",
        (("F.cross_entropy(model(x), y)", "F.binary_cross_entropy_with_logits(model(x).squeeze(1), y2)"),),
    ),
    Mistake(
        "mse_loss of (N, 1) and (N,)", "broadcast-in-loss", "pred",
        REGRESSION + """\
for _ in range(6):
    pred = model(x)
    loss = F.mse_loss(pred, t)  # !
    opt.zero_grad(); loss.backward(); opt.step()
""",
        (("F.mse_loss(pred, t)", "F.mse_loss(pred.squeeze(1), t)"),),
    ),
    Mistake(
        "pred - target of (N, 1) and (N,)", "broadcast-in-loss", "pred",
        REGRESSION + """\
for _ in range(6):
    opt.zero_grad()
    pred = model(x)
    error = ((pred - t) ** 2).mean()  # !
    error.backward()
    opt.step()
""",
        (("(pred - t)", "(pred[:, 0] - t)"),),
    ),
    Mistake(
        "L1Loss with a column of targets", "broadcast-in-loss", "out",
        """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)
    def forward(self, x):
        return self.net(x).flatten()
model = Model()
opt = optim.SGD(model.parameters(), lr=0.01)
crit = nn.L1Loss()
x = torch.randn(16, 3)
y = x.sum(1, keepdim=True)
for _ in range(6):
    opt.zero_grad()
    out = model(x)
    loss = crit(out, y)  # !
    loss.backward()
    opt.step()
""",
        (("crit(out, y)", "crit(out, y.flatten())"),),
    ),
    Mistake(
        "float64 targets from NumPy", "float64", "t",
        """\
model = nn.Linear(3, 1)
opt = optim.SGD(model.parameters(), lr=0.05)
rng = np.random.default_rng(0)
features = rng.normal(size=(24, 3))
x = torch.from_numpy(features).float()
t = torch.from_numpy(features.sum(1, keepdims=True))  # !
for _ in range(6):
    opt.zero_grad()
    loss = ((model(x) - t) ** 2).mean()
    loss.backward()
    opt.step()
""",
        (("keepdims=True))  # !", "keepdims=True)).float()"),),
    ),
    Mistake(
        "kl_div with mean", "wrong-reduction", "kl_div",
        """\
import warnings
warnings.simplefilter("ignore")
teacher, student = nn.Linear(5, 4), nn.Linear(5, 4)
opt = optim.SGD(student.parameters(), lr=0.1)
x = torch.randn(20, 5)
for _ in range(5):
    with torch.no_grad():
        goal = F.softmax(teacher(x), dim=1)
    opt.zero_grad()
    loss = F.kl_div(F.log_softmax(student(x), dim=1), goal, reduction="mean")  # !
    loss.backward()
    opt.step()
""",
        (('"mean"', '"batchmean"'),),
    ),
    Mistake(
        "log of 0", "nan", "p",
        """\
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU())
opt = optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 4)
for _ in range(4):
    opt.zero_grad()
    p = model(x)
    entropy = -(p * torch.log(p)).sum(1)  # !
    entropy.mean().backward()
    opt.step()
""",
        (("torch.log(p)", "torch.log(p + 1e-3)"),),
    ),
    Mistake(
        "sqrt at 0", "nan", "sqrt",
        """\
model = nn.Linear(4, 4)
opt = optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 4)
for _ in range(4):
    opt.zero_grad()
    d = model(x) - model(x)
    distance = torch.sqrt((d ** 2).sum(1))  # !
    loss = distance.mean() + (model(x) ** 2).mean()
    loss.backward()
    opt.step()
""",
        (("(d ** 2).sum(1))", "(d ** 2).sum(1) + 1e-6)"), ("- model(x)", "- x")),
    ),
]  # fmt: skip
