"""Mistakes about states and metrics: copies that are none, target networks, clipping, schedules, accuracies."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, LOOP, REGRESSION, Mistake

STATE_MISTAKES = [
    Mistake(
        "a clip norm that stops learning",
        "clipping-too-small",
        "clip_grad_norm_",
        CLASSIFIER
        + """\
for epoch in range(8):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1e-6)  # !
    optimizer.step()
""",
        (("1e-6", "1.0"),),
    ),
    Mistake(
        "best weights kept by reference",
        "state-not-copied",
        "best",
        CLASSIFIER
        + """\
best, best_loss = None, float("inf")
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    if epoch == 3:
        best, best_loss = net.state_dict(), loss.item()  # !
net.load_state_dict(best)
""",
        (("net.state_dict(), loss", "{k: v.clone() for k, v in net.state_dict().items()}, loss"),),
    ),
    Mistake(
        "strict=False loads nothing",
        "nothing-loaded",
        "load_state_dict",
        CLASSIFIER
        + """\
pretrained = {"module." + k: v.clone() for k, v in Net().state_dict().items()}
net.load_state_dict(pretrained, strict=False)  # !
"""
        + LOOP,
        (('"module." + k: v', "k: v"),),
    ),
    Mistake(
        "betas of Adam swapped",
        "betas-swapped",
        "optimizer",
        CLASSIFIER.replace(
            "optimizer = optim.SGD(net.parameters(), lr=0.1)",
            "optimizer = optim.Adam(net.parameters(), lr=0.01, betas=(0.999, 0.9))  # !",
        )
        + LOOP,
        (("(0.999, 0.9)", "(0.9, 0.999)"),),
    ),
    Mistake(
        "the loader has no batches",
        "no-batches",
        "loader",
        CLASSIFIER
        + """\
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True)  # !
for epoch in range(6):
    for xb, yb in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(xb), yb).backward()
        optimizer.step()
""",
        (("batch_size=64", "batch_size=16"),),
    ),
    Mistake(
        "zero_grad without parentheses",
        "zero-grad-forgotten",
        "optimizer",
        CLASSIFIER
        + """\
for epoch in range(6):
    optimizer.zero_grad  # !
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
        (("optimizer.zero_grad  # !", "optimizer.zero_grad()"),),
    ),
    Mistake(
        "plateau scheduler in the wrong mode",
        "plateau-mode",
        "scheduler",
        CLASSIFIER
        + """\
scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=1)  # !
for epoch in range(12):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step(loss.item())
""",
        (('mode="max"', 'mode="min"'),),
    ),
    Mistake(
        "teacher forced by its own parameters: one network in two optimizers",
        "two-optimizers",
        "opt_g",
        """\
G, D = nn.Linear(4, 6), nn.Linear(6, 1)
opt_g = optim.Adam(D.parameters(), lr=0.01)  # !
opt_d = optim.Adam(D.parameters(), lr=0.01)
real = torch.randn(32, 6)
for _ in range(6):
    fake = G(torch.randn(32, 4))
    loss_d = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = F.softplus(-D(fake)).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
""",
        (("opt_g = optim.Adam(D.", "opt_g = optim.Adam(G."),),
    ),
    Mistake(
        "argmax over the batch",
        "argmax-dimension",
        "argmax",
        CLASSIFIER
        + """\
for epoch in range(6):
    optimizer.zero_grad()
    out = net(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    hits = (out.argmax(0) == y[:3]).sum().item()  # !
""",
        (("(out.argmax(0) == y[:3])", "(out.argmax(1) == y)"),),
    ),
    Mistake(
        "rate divided in each step",
        "learning-rate-vanishes",
        "opt",
        REGRESSION
        + """\
for step in range(20):
    opt.zero_grad()
    F.mse_loss(model(x).squeeze(1), t).backward()
    opt.step()
    for group in opt.param_groups:
        group["lr"] *= 0.1  # !
""",
        (("*= 0.1", "*= 0.99"),),
    ),
    Mistake(
        "the largest score in place of its class",
        "score-as-class",
        "==",
        CLASSIFIER
        + """\
for epoch in range(6):
    optimizer.zero_grad()
    out = net(x)
    F.cross_entropy(out, y).backward()
    optimizer.step()
    pred = torch.max(out, 1)[0]
    correct = (pred == y).sum().item()  # !
""",
        (("torch.max(out, 1)[0]", "torch.max(out, 1)[1]"),),
    ),
    Mistake(
        "a hand-made step that rebinds the name",
        "step-forgotten",
        "p",
        """\
x = torch.randn(40, 3)
t = x @ torch.tensor([1.0, -2.0, 0.5])
w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for _ in range(10):
    loss = ((x @ w + b - t) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p = p - 0.1 * p.grad  # !
    w.grad = b.grad = None
""",
        (("p = p - 0.1 * p.grad", "p -= 0.1 * p.grad"),),
    ),
    Mistake(
        "a hand-made step that keeps the gradients",
        "zero-grad-forgotten",
        "w",
        """\
x = torch.randn(40, 3)
t = x @ torch.tensor([1.0, -2.0, 0.5])
w = torch.zeros(3, requires_grad=True)
for _ in range(10):
    loss = ((x @ w - t) ** 2).mean()
    loss.backward()  # !
    with torch.no_grad():
        w -= 0.1 * w.grad
""",
        (("        w -= 0.1 * w.grad\n", "        w -= 0.1 * w.grad\n        w.grad.zero_()\n"),),
    ),
]
