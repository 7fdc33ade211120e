"""Mistakes in policies, critics and their targets, and in averages of weights."""

from __future__ import annotations

from tests.support.mistaken_programs import Mistake

POLICY_MISTAKES = [
    Mistake(
        "REINFORCE without the minus",
        "negated-loss",
        "log_prob",
        """\
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = optim.Adam(policy.parameters(), lr=0.01)
for episode in range(8):
    obs = torch.randn(30, 4)
    dist = torch.distributions.Categorical(logits=policy(obs))
    action = dist.sample()
    reward = (action == (obs[:, 0] > 0).long()).float()
    returns = (reward - reward.mean()) / (reward.std() + 1e-6)
    loss = (dist.log_prob(action) * returns).mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = (dist.log_prob(action) * returns).mean()  # !",
                "    loss = -(dist.log_prob(action) * returns).mean()",
            ),
        ),
    ),
    Mistake(
        "advantage keeps the critic's graph",
        "advantage-with-gradient",
        "advantage",
        """\
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
opt = optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
for _ in range(8):
    obs = torch.randn(30, 4)
    dist = torch.distributions.Categorical(logits=actor(obs))
    action = dist.sample()
    ret = obs[:, 0] + action.float()
    value = critic(obs).squeeze(-1)
    advantage = ret - value
    policy_loss = -(dist.log_prob(action) * advantage).mean()  # !
    value_loss = F.mse_loss(value, ret)
    loss = policy_loss + 0.5 * value_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    policy_loss = -(dist.log_prob(action) * advantage).mean()  # !",
                "    policy_loss = -(dist.log_prob(action) * advantage.detach()).mean()",
            ),
        ),
    ),
    Mistake(
        "bootstrapped target of the network itself",
        "target-with-gradient",
        "target",
        """\
q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
opt = optim.Adam(q.parameters(), lr=1e-3)
for _ in range(8):
    s, a, r, s2 = torch.randn(32, 4), torch.randint(0, 2, (32, 1)), torch.randn(32), torch.randn(32, 4)
    pred = q(s).gather(1, a).squeeze(1)
    target = r + 0.99 * q(s2).max(1).values
    loss = F.mse_loss(pred, target)  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                """\
    target = r + 0.99 * q(s2).max(1).values
    loss = F.mse_loss(pred, target)  # !""",
                """\
    with torch.no_grad():
        target = r + 0.99 * q(s2).max(1).values
    loss = F.mse_loss(pred, target)""",
            ),
        ),
    ),
    Mistake(
        "probabilities as logits of a distribution",
        "probabilities-as-logits",
        "logits",
        """\
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), nn.Softmax(dim=-1))
opt = optim.Adam(policy.parameters(), lr=0.01)
for episode in range(8):
    obs = torch.randn(30, 4)
    probs = policy(obs)
    dist = torch.distributions.Categorical(logits=probs)  # !
    action = dist.sample()
    reward = (action == (obs[:, 0] > 0).long()).float()
    loss = -(dist.log_prob(action) * (reward - reward.mean())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    dist = torch.distributions.Categorical(logits=probs)  # !",
                "    dist = torch.distributions.Categorical(probs=probs)",
            ),
        ),
    ),
    Mistake(
        "ratio of a policy without the exponential",
        "ratio-without-exp",
        "ratio",
        """\
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = optim.Adam(actor.parameters(), lr=3e-3)
for it in range(3):
    obs = torch.randn(40, 4)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=actor(obs))
        action = old.sample()
        old_logp = old.log_prob(action)
    adv = torch.randn(40) + (action == (obs[:, 0] > 0).long()).float()
    for epoch in range(4):
        logp = torch.distributions.Categorical(logits=actor(obs)).log_prob(action)
        ratio = logp - old_logp  # !
        clipped = torch.clamp(ratio, 0.8, 1.2)
        loss = -torch.min(ratio * adv, clipped * adv).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        (("        ratio = logp - old_logp  # !", "        ratio = (logp - old_logp).exp()"),),
    ),
    Mistake(
        "the greater of both surrogates",
        "surrogate-choice",
        "maximum",
        """\
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = optim.Adam(actor.parameters(), lr=3e-3)
for it in range(3):
    obs = torch.randn(40, 4)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=actor(obs))
        action = old.sample()
        old_logp = old.log_prob(action)
    adv = torch.randn(40)
    for epoch in range(4):
        logp = torch.distributions.Categorical(logits=actor(obs)).log_prob(action)
        ratio = (logp - old_logp).exp()
        surrogate = torch.max(ratio * adv, ratio.clamp(0.8, 1.2) * adv)  # !
        loss = -surrogate.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        (
            (
                "        surrogate = torch.max(ratio * adv, ratio.clamp(0.8, 1.2) * adv)  # !",
                "        surrogate = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)",
            ),
        ),
    ),
    Mistake(
        "the entropy bonus is a penalty",
        "entropy-minimized",
        "entropy",
        """\
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
opt = optim.Adam(actor.parameters(), lr=3e-3)
for it in range(8):
    obs = torch.randn(40, 4)
    dist = torch.distributions.Categorical(logits=actor(obs))
    action = dist.sample()
    adv = torch.randn(40)
    loss = -(dist.log_prob(action) * adv).mean() + 0.01 * dist.entropy().mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (
            (
                "    loss = -(dist.log_prob(action) * adv).mean() + 0.01 * dist.entropy().mean()  # !",
                "    loss = -(dist.log_prob(action) * adv).mean() - 0.01 * dist.entropy().mean()",
            ),
        ),
    ),
    Mistake(
        "the end of an episode is not masked",
        "bootstrap-mask",
        "done",
        """\
import copy
q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target_q = copy.deepcopy(q)
opt = optim.Adam(q.parameters(), lr=1e-3)
for i in range(12):
    s, a, r, s2 = torch.randn(32, 4), torch.randint(0, 2, (32, 1)), torch.randn(32), torch.randn(32, 4)
    done = (torch.rand(32) < 0.1).float()
    value = q(s).gather(1, a).squeeze(1)
    with torch.no_grad():
        target = r + 0.99 * target_q(s2).max(1).values * done  # !
    loss = F.smooth_l1_loss(value, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 4 == 3:
        target_q.load_state_dict(q.state_dict())
""",
        (
            (
                "        target = r + 0.99 * target_q(s2).max(1).values * done  # !",
                "        target = r + 0.99 * target_q(s2).max(1).values * (1 - done)",
            ),
        ),
    ),
    Mistake(
        "soft update with the factors exchanged",
        "average-factor",
        "the average",
        """\
import copy
net = nn.Linear(4, 2)
target_net = copy.deepcopy(net)
opt = optim.Adam(net.parameters(), lr=1e-2)
tau = 0.005
for i in range(12):
    s, r, s2 = torch.randn(32, 4), torch.randn(32), torch.randn(32, 4)
    with torch.no_grad():
        goal = r + 0.9 * target_net(s2).max(1).values
    loss = F.mse_loss(net(s).max(1).values, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, t in zip(net.parameters(), target_net.parameters()):
            t.copy_((1 - tau) * p + tau * t)  # !
""",
        (("            t.copy_((1 - tau) * p + tau * t)  # !", "            t.copy_(tau * p + (1 - tau) * t)"),),
    ),
    Mistake(
        "the average of weights keeps too little",
        "average-factor",
        "the average",
        """\
import copy
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
ema = copy.deepcopy(net)
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
decay = 0.999
for _ in range(12):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), net.parameters()):
            e.mul_(1 - decay).add_(p, alpha=decay)  # !
""",
        (
            (
                "            e.mul_(1 - decay).add_(p, alpha=decay)  # !",
                "            e.mul_(decay).add_(p, alpha=1 - decay)",
            ),
        ),
    ),
    Mistake(
        "one buffer for all states",
        "same-sample",
        "the batch",
        """\
class Env:
    def __init__(self):
        self.state = torch.zeros(4)
    def step(self):
        self.state += torch.randn(4)
        return self.state
env, replay = Env(), []
for _ in range(64):
    replay.append(env.step())
net = nn.Linear(4, 2)
opt = optim.Adam(net.parameters(), lr=1e-3)
for _ in range(8):
    idx = torch.randint(0, 64, (16,))
    batch = torch.stack([replay[i] for i in idx.tolist()])  # !
    opt.zero_grad()
    loss = (net(batch) - batch[:, :2]).square().mean()
    loss.backward()
    opt.step()
""",
        (
            ("        return self.state", "        return self.state.clone()"),
            (
                "    batch = torch.stack([replay[i] for i in idx.tolist()])  # !",
                """\
    batch = torch.stack([replay[i] for i in idx.tolist()])
    batch = batch / 10""",
            ),
        ),
    ),
    Mistake(
        "value loss of rewards only",
        "negated-loss",
        "log_prob",
        """\
net = nn.Linear(4, 2)
opt = optim.Adam(net.parameters(), lr=1e-2)
for _ in range(8):
    obs = torch.randn(30, 4)
    d = torch.distributions.Categorical(logits=net(obs))
    a = d.sample()
    r = (a == (obs[:, 0] > 0).long()).float()
    loss = (d.log_prob(a) * r).mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        (("    loss = (d.log_prob(a) * r).mean()  # !", "    loss = (-d.log_prob(a) * r).mean()"),),
    ),
    Mistake(
        "an average that starts as the same object",
        "average-factor",
        "the average",
        """\
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
ema = net
opt = optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(48, 6)
y = x[:, :3].argmax(1)
for _ in range(8):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), net.parameters()):
            e.mul_(0.99).add_(p, alpha=0.01)  # !
""",
        (
            (
                "ema = net",
                """\
import copy
ema = copy.deepcopy(net)""",
            ),
        ),
    ),
]
