"""Mistakes about targets: outside of the loss's range, in the wrong place, weighted or ignored wrongly."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, REGRESSION, Mistake

TARGET_MISTAKES = [
    Mistake(
        "label smoothing twice",
        "smoothed-twice",
        "label_smoothing",
        CLASSIFIER
        + """\
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
smooth = F.one_hot(y, 3).float() * 0.9 + 0.1 / 3
for epoch in range(6):
    optimizer.zero_grad()
    loss = criterion(net(x), smooth)  # !
    loss.backward()
    optimizer.step()
""",
        (("nn.CrossEntropyLoss(label_smoothing=0.1)", "nn.CrossEntropyLoss()"),),
    ),
    Mistake(
        "target network never synchronised",
        "target-never-updated",
        "target_net",
        """\
import copy
q_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target_net = copy.deepcopy(q_net)
opt = optim.Adam(q_net.parameters(), lr=0.01)
for step in range(24):
    s, s2 = torch.randn(16, 4), torch.randn(16, 4)
    a, r = torch.randint(0, 2, (16, 1)), torch.randn(16, 1)
    q = q_net(s).gather(1, a)
    with torch.no_grad():
        target = r + 0.9 * target_net(s2).max(1, keepdim=True).values  # !
    loss = F.smooth_l1_loss(q, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    opt.step()\n",
                "    opt.step()\n    if step % 5 == 0:\n        target_net.load_state_dict(q_net.state_dict())\n",
            ),
        ),
    ),
    Mistake(
        "predictions averaged before the loss",
        "mean-before-loss",
        "mean",
        REGRESSION
        + """\
for _ in range(6):
    opt.zero_grad()
    pred = model(x).squeeze(1).mean()
    loss = (pred - t.mean()) ** 2  # !
    loss.backward()
    opt.step()
""",
        (
            (
                "    pred = model(x).squeeze(1).mean()\n    loss = (pred - t.mean()) ** 2  # !",
                "    loss = ((model(x).squeeze(1) - t) ** 2).mean()",
            ),
        ),
    ),
    Mistake(
        "logits averaged over the batch",
        "mean-before-loss",
        "mean",
        CLASSIFIER
        + """\
one_hot = F.one_hot(y, 3).float()
for epoch in range(6):
    optimizer.zero_grad()
    logits = net(x)
    loss = F.cross_entropy(logits.mean(0), one_hot.mean(0))  # !
    loss.backward()
    optimizer.step()
""",
        (("logits.mean(0), one_hot.mean(0)", "logits, one_hot"),),
    ),
    Mistake(
        "pos_weight the wrong way round",
        "class-weights-inverted",
        "pos_weight",
        """\
torch.manual_seed(2)
x = torch.randn(200, 5)
y = (x[:, :1] > 1.2).float()
pos = y.sum()
criterion = nn.BCEWithLogitsLoss(pos_weight=pos / (len(y) - pos))
model = nn.Linear(5, 1)
opt = optim.Adam(model.parameters(), lr=0.01)
for _ in range(6):
    opt.zero_grad()
    loss = criterion(model(x), y)  # !
    loss.backward()
    opt.step()
""",
        (("pos / (len(y) - pos)", "(len(y) - pos) / pos"),),
    ),
    Mistake(
        "class weights by frequency",
        "class-weights-inverted",
        "weight",
        """\
torch.manual_seed(2)
x = torch.randn(200, 5)
y = (x[:, 0] > 1.0).long() + (x[:, 0] > 1.6).long()
counts = torch.bincount(y, minlength=3).float()
weight = counts / counts.sum()  # !
criterion = nn.CrossEntropyLoss(weight=weight)
model = nn.Linear(5, 3)
opt = optim.Adam(model.parameters(), lr=0.01)
for _ in range(6):
    opt.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    opt.step()
""",
        (("counts / counts.sum()", "counts.sum() / counts"),),
    ),
    Mistake(
        "sigmoid's output for targets beyond one",
        "target-out-of-range",
        "sigmoid",
        """\
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
opt = optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(40, 4)
price = 3 + x.sum(1, keepdim=True) * 2
for _ in range(6):
    opt.zero_grad()
    loss = F.mse_loss(model(x), price)  # !
    loss.backward()
    opt.step()
""",
        ((", nn.Sigmoid()", ""),),
    ),
    Mistake(
        "labels of minus one for BCE",
        "target-out-of-range",
        "binary_cross_entropy_with_logits",
        """\
model = nn.Linear(4, 1)
opt = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(40, 4)
y = torch.sign(x.sum(1, keepdim=True))
for _ in range(6):
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(x), y)  # !
    loss.backward()
    opt.step()
""",
        (("torch.sign(x.sum(1, keepdim=True))", "(x.sum(1, keepdim=True) > 0).float()"),),
    ),
    Mistake(
        "labels of zero for a cosine loss",
        "target-out-of-range",
        "cosine_embedding_loss",
        """\
enc = nn.Linear(5, 8)
opt = optim.Adam(enc.parameters(), lr=0.01)
a, b = torch.randn(32, 5), torch.randn(32, 5)
same = torch.randint(0, 2, (32,)).float()
for _ in range(6):
    opt.zero_grad()
    loss = F.cosine_embedding_loss(enc(a), enc(b), same)  # !
    loss.backward()
    opt.step()
""",
        (("(0, 2, (32,)).float()", "(0, 2, (32,)).float() * 2 - 1"),),
    ),
    Mistake(
        "logits in CTC",
        "ctc-without-log",
        "ctc_loss",
        """\
rnn, head = nn.GRU(4, 8), nn.Linear(8, 6)
opt = optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.01)
x = torch.randn(12, 5, 4)
y = torch.randint(1, 6, (5, 3))
for _ in range(5):
    h, _s = rnn(x)
    logits = head(h)
    loss = F.ctc_loss(logits, y, torch.full((5,), 12), torch.full((5,), 3))  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("F.ctc_loss(logits,", "F.ctc_loss(logits.log_softmax(-1),"),),
    ),
    Mistake(
        "exp before a Poisson loss of logarithms",
        "poisson-log-input",
        "poisson_nll_loss",
        """\
model = nn.Linear(4, 1)
opt = optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(40, 4)
counts = torch.poisson(torch.exp(x[:, :1] * 0.5))
for _ in range(6):
    opt.zero_grad()
    rate = torch.exp(model(x))
    loss = F.poisson_nll_loss(rate, counts)  # !
    loss.backward()
    opt.step()
""",
        (("F.poisson_nll_loss(rate, counts)", "F.poisson_nll_loss(rate, counts, log_input=False)"),),
    ),
    Mistake(
        "TD target carries a gradient",
        "target-with-gradient",
        "target",
        """\
q_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
opt = optim.Adam(q_net.parameters(), lr=0.01)
for step in range(6):
    s, s2 = torch.randn(16, 4), torch.randn(16, 4)
    a, r = torch.randint(0, 2, (16, 1)), torch.randn(16, 1)
    q = q_net(s).gather(1, a)
    target = r + 0.9 * q_net(s2).max(1, keepdim=True).values
    loss = F.mse_loss(q, target)  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("F.mse_loss(q, target)", "F.mse_loss(q, target.detach())"),),
    ),
    Mistake(
        "targets of several classes in cross entropy",
        "target-not-distribution",
        "target",
        CLASSIFIER
        + """\
tags = (x[:, :3] > 0).float()
for epoch in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), tags)  # !
    loss.backward()
    optimizer.step()
""",
        (("F.cross_entropy(net(x), tags)", "F.binary_cross_entropy_with_logits(net(x), tags)"),),
    ),
    Mistake(
        "arguments of BCE the wrong way round",
        "loss-arguments-swapped",
        "binary_cross_entropy",
        """\
model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
opt = optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(40, 4)
y = (x.sum(1, keepdim=True) > 0).float()
for _ in range(6):
    opt.zero_grad()
    loss = F.binary_cross_entropy(y, model(x))  # !
    loss.backward()
    opt.step()
""",
        (("(y, model(x))", "(model(x), y)"),),
    ),
    Mistake(
        "inputs and labels shuffled apart",
        "shuffled-apart",
        "y",
        CLASSIFIER
        + """\
for epoch in range(6):
    x = x[torch.randperm(48)]
    y = y[torch.randperm(48)]  # !
    for i in range(0, 48, 16):
        optimizer.zero_grad()
        F.cross_entropy(net(x[i:i + 16]), y[i:i + 16]).backward()
        optimizer.step()
""",
        (
            (
                "    x = x[torch.randperm(48)]\n    y = y[torch.randperm(48)]",
                "    order = torch.randperm(48)\n    x = x[order]\n    y = y[order]",
            ),
        ),
    ),
    Mistake(
        "pixels divided as integers",
        "constant-input",
        "net",
        """\
images = torch.randint(0, 255, (64, 36), dtype=torch.int64)
y = (images[:, :18].sum(1) > images[:, 18:].sum(1)).long()
x = (images // 255).float()
net = nn.Sequential(nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 2))
opt = optim.Adam(net.parameters(), lr=0.01)
for _ in range(6):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)  # !
    loss.backward()
    opt.step()
""",
        (("(images // 255).float()", "images / 255"),),
    ),
    Mistake(
        "labels of one and two",
        "target-out-of-range",
        "binary_cross_entropy",
        """\
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
criterion = nn.BCEWithLogitsLoss()
opt = optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(40, 3)
y = (x[:, 0] > 0).float() + 1
for _ in range(6):
    opt.zero_grad()
    loss = criterion(net(x)[:, 0], y)  # !
    loss.backward()
    opt.step()
""",
        (("> 0).float() + 1", "> 0).float()"),),
    ),
    Mistake(
        "the anchor is its own positive",
        "same-embedding",
        "triplet_margin_loss",
        """\
enc = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4))
opt = optim.Adam(enc.parameters(), lr=0.01)
a, n = torch.randn(32, 5), torch.randn(32, 5)
p = a + 0.1 * torch.randn(32, 5)
for _ in range(6):
    opt.zero_grad()
    loss = F.triplet_margin_loss(enc(a), enc(a), enc(n))  # !
    loss.backward()
    opt.step()
""",
        (("enc(a), enc(a), enc(n)", "enc(a), enc(p), enc(n)"),),
    ),
    Mistake(
        "softplus for targets below zero",
        "target-out-of-range",
        "softplus",
        """\
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1), nn.Softplus())
opt = optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(40, 4)
change = x.sum(1, keepdim=True)
for _ in range(6):
    opt.zero_grad()
    loss = F.l1_loss(net(x), change)  # !
    loss.backward()
    opt.step()
""",
        ((", nn.Softplus()", ""),),
    ),
    Mistake(
        "kl_div's arguments exchanged",
        "loss-arguments-swapped",
        "kl_div",
        CLASSIFIER
        + """\
teacher = torch.softmax(torch.randn(48, 3), 1)
for epoch in range(6):
    optimizer.zero_grad()
    student = F.softmax(net(x), dim=1)
    loss = F.kl_div(teacher.log(), student, reduction="batchmean")  # !
    loss.backward()
    optimizer.step()
""",
        (("F.kl_div(teacher.log(), student, ", "F.kl_div(student.log(), teacher, "),),
    ),
    Mistake(
        "the answer among the features",
        "target-in-input",
        "net",
        """\
torch.manual_seed(4)
table = torch.randn(60, 5)
price = table[:, 4] + 0.1 * torch.randn(60)
table = torch.cat([table, price[:, None]], 1)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = optim.Adam(net.parameters(), lr=0.01)
for i in range(8):
    rows = torch.randperm(60)[:32]
    pred = net(table[rows])  # !
    loss = F.mse_loss(pred[:, 0], price[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("nn.Linear(6, 16)", "nn.Linear(5, 16)"), ("net(table[rows])", "net(table[rows, :5])")),
    ),
    Mistake(
        "a real class is ignored",
        "ignored-class",
        "ignore_index",
        CLASSIFIER
        + """\
criterion = nn.CrossEntropyLoss(ignore_index=0)
for epoch in range(6):
    optimizer.zero_grad()
    loss = criterion(net(x), y)  # !
    loss.backward()
    optimizer.step()
""",
        (("nn.CrossEntropyLoss(ignore_index=0)", "nn.CrossEntropyLoss()"),),
    ),
    Mistake(
        "target network of an agent never copied",
        "target-never-updated",
        "target",
        """\
class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.target = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.target.load_state_dict(self.q.state_dict())
        self.opt = optim.Adam(self.q.parameters(), lr=0.01)
    def update(self, s, a, r, s2):
        with torch.no_grad():
            best = self.target(s2).max(1)[0]  # !
        loss = F.mse_loss(self.q(s).gather(1, a).squeeze(1), r + 0.9 * best)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
    def sync(self):
        self.target.load_state_dict(self.q.state_dict())
agent = Agent()
for i in range(24):
    agent.update(torch.randn(8, 3), torch.randint(0, 2, (8, 1)), torch.randn(8), torch.randn(8, 3))
""",
        (
            (
                "torch.randn(8), torch.randn(8, 3))\n",
                "torch.randn(8), torch.randn(8, 3))\n    if i % 8 == 0:\n        agent.sync()\n",
            ),
        ),
    ),
    Mistake(
        "mean logit for a batch",
        "mean-before-loss",
        "mean",
        """\
net = nn.Linear(4, 1)
opt = optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(32, 4)
y = (x[:, 0] > 0).float()
for _ in range(6):
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(net(x).mean(), y.mean())  # !
    loss.backward()
    opt.step()
""",
        (("net(x).mean(), y.mean()", "net(x).squeeze(1), y"),),
    ),
]
