"""Mistakes about what is set around the steps: freezing, sharing, shapes, clipping, options of optimizers."""

from __future__ import annotations

from tests.support.mistaken_programs import CLASSIFIER, Mistake

OPTION_MISTAKES = [
    Mistake(
        "shared initial weight by one tensor", "shared-memory", "model.2.weight",
        """\
w = torch.randn(4, 4) * 0.1
a, b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
a.weight.data = w
b.weight.data = w  # !
model = nn.Sequential(a, nn.Tanh(), b)
opt = optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    opt.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    opt.step()
""",
        (("b.weight.data = w", "b.weight.data = w.clone()"),
        ("a.weight.data = w\n", "a.weight.data = w.clone()\n"),),
    ),
    Mistake(
        "view in place of transpose for images", "view-in-place-of-transpose", "view",
        """\
images = torch.randn(16, 8, 8, 3)
y = torch.randint(0, 2, (16,))
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
opt = optim.Adam(net.parameters())
for _ in range(6):
    opt.zero_grad()
    x = images.view(16, 3, 8, 8)  # !
    F.cross_entropy(net(x), y).backward()
    opt.step()
""",
        (("images.view(16, 3, 8, 8)", "images.permute(0, 3, 1, 2)"),),
    ),
    Mistake(
        "view in place of transpose in attention", "view-in-place-of-transpose", "view",
        """\
q = nn.Linear(8, 8)
out = nn.Linear(8, 2)
opt = optim.Adam([*q.parameters(), *out.parameters()])
x, y = torch.randn(4, 5, 8), torch.randint(0, 2, (4,))
for _ in range(6):
    opt.zero_grad()
    h = q(x).view(4, 2, 5, 4)  # !
    h = h.transpose(1, 2).reshape(4, 5, 8)
    F.cross_entropy(out(h.mean(1)), y).backward()
    opt.step()
""",
        (("view(4, 2, 5, 4)", "view(4, 5, 2, 4).transpose(1, 2)"),),
    ),
    Mistake(
        "RNN without batch_first", "batch-first", "rnn",
        """\
rnn, out = nn.GRU(3, 8), nn.Linear(8, 2)  # !
opt = optim.Adam([*rnn.parameters(), *out.parameters()], lr=0.01)
x, y = torch.randn(12, 5, 3), torch.randint(0, 2, (12,))
for _ in range(6):
    opt.zero_grad()
    h, _ = rnn(x)
    F.cross_entropy(out(h[:, -1]), y).backward()
    opt.step()
""",
        (("nn.GRU(3, 8)", "nn.GRU(3, 8, batch_first=True)"),),
    ),
    Mistake(
        "optimizer made anew in each epoch", "optimizer-made-anew", "optimizer",
        CLASSIFIER + """\
for epoch in range(6):
    optimizer = optim.Adam(net.parameters(), lr=0.01)  # !
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
        ((("for epoch in range(6):\n"
         "    optimizer = optim.Adam(net.parameters(), lr=0.01)  # !"),
         ("optimizer = optim.Adam(net.parameters(), lr=0.01)\n"
         "for epoch in range(6):")),),
    ),
    Mistake(
        "clip after step", "clipping-in-vain", "clip_grad_norm_",
        CLASSIFIER + """\
for epoch in range(6):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # !
""",
        ((("    optimizer.step()\n"
         "    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # !"),
         ("    nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
         "    optimizer.step()")),),
    ),
    Mistake(
        "clip before backward", "clipping-in-vain", "clip_grad_norm_",
        CLASSIFIER + """\
for epoch in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # !
    loss.backward()
    optimizer.step()
""",
        ((("    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # !\n"
         "    loss.backward()"),
         ("    loss.backward()\n"
         "    nn.utils.clip_grad_norm_(net.parameters(), 1.0)")),),
    ),
    Mistake(
        "clip of an empty generator", "clipping-in-vain", "clip_grad_norm_",
        CLASSIFIER + """\
params = net.parameters()
optimizer = optim.SGD(net.parameters(), lr=0.1)
for epoch in range(6):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    nn.utils.clip_grad_norm_(params, 1.0)  # !
    optimizer.step()
""",
        (("params = net.parameters()", "params = list(net.parameters())"),),
    ),
    Mistake(
        "zero_grad of another optimizer", "zero-grad-forgotten", "optimizer",
        CLASSIFIER + """\
other = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
for epoch in range(6):
    other.zero_grad()
    F.cross_entropy(net(x), y).backward()  # !
    optimizer.step()
""",
        (("other.zero_grad()", "optimizer.zero_grad()"),),
    ),
    Mistake(
        "step without parentheses", "step-forgotten", "optimizer",
        CLASSIFIER + """\
for epoch in range(6):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step  # !
""",
        (("    optimizer.step  # !\n", "    optimizer.step()\n"),),
    ),
    Mistake(
        "evaluation records graphs in a list", "graph-kept", "outs",
        CLASSIFIER + """\
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
net.eval()
outs = []
for i in range(0, 48, 6):
    outs.append(net(x[i:i + 6]))  # !
net.train()
for epoch in range(2):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
""",
        (("outs.append(net(x[i:i + 6]))", "outs.append(net(x[i:i + 6]).detach())"),),
    ),
    Mistake(
        "weights initialised to zero", "constant-weights", "net.fc1.weight",
        CLASSIFIER + """\
for p in net.parameters():
    nn.init.zeros_(p)  # !
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        (("nn.init.zeros_(p)", "nn.init.normal_(p, 0, 0.3)"),),
    ),
    Mistake(
        "negative loss sign", "negated-loss", "loss",
        CLASSIFIER + """\
for epoch in range(12):
    optimizer.zero_grad()
    loss = -F.cross_entropy(net(x), y)  # !
    loss.backward()
    optimizer.step()
""",
        (("-F.cross_entropy", "F.cross_entropy"),),
    ),
    Mistake(
        "maximize left on", "maximized-loss", "optimizer",
        CLASSIFIER + """\
optimizer = optim.SGD(net.parameters(), lr=0.1, maximize=True)  # !
for epoch in range(12):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        ((", maximize=True", ""),),
    ),
    Mistake(
        "weight decay of 10", "weight-decay-too-large", "optimizer",
        CLASSIFIER + """\
optimizer = optim.AdamW(net.parameters(), lr=0.1, weight_decay=10.0)  # !
for epoch in range(12):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        (("weight_decay=10.0", "weight_decay=0.01"),),
    ),
    Mistake(
        "momentum above one", "momentum-too-large", "optimizer",
        CLASSIFIER + """\
optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=1.5)  # !
for epoch in range(12):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        (("momentum=1.5", "momentum=0.9"),),
    ),
]  # fmt: skip
