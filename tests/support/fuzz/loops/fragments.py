"""The habits of which random training loops are made: a few lines of Python each, and where in the loop they stand.

A line is `phase: code`, and lines that begin with blanks go on with the code before them. The phases are those of
`PHASES`; `{i}` is the fragment's own number, `{c}` a small number, `{m}` a call, `{p}` and `{q}` are parameters,
`{o}` names an optimizer. `k` is the number of the call, `box` an object that holds state, `log` a list.
"""

from __future__ import annotations

PYTHON_STATE = """
begin: box.n = getattr(box, "n", 0) + 1
loss: loss = loss / box.n
watch: box.n
---
setup: counts{i} = {"seen": 0}
begin: counts{i}["seen"] += x.shape[0]
loss: loss = loss * (1 + 0.01 * counts{i}["seen"])
watch: counts{i}
---
setup: box.count{i} = 0
end: box.count{i} += 1
    if box.count{i} % 3 == 0:
        log.append(box.count{i})
---
end: log.append(loss.detach())
---
end: log.append(loss.item())
---
setup: totals{i} = {}
end: totals{i}["loss"] = totals{i}.get("loss", 0.0) + loss.item()
watch: totals{i}
---
setup: from collections import deque
setup: recent{i} = deque(maxlen=3)
end: recent{i}.append(loss.detach())
watch: sum(float(v) for v in recent{i})
---
setup: from collections import defaultdict
setup: seen{i} = defaultdict(list)
end: seen{i}["loss"].append(loss.detach() * {c})
watch: seen{i}["loss"]
---
setup: @dataclass
    class Config{i}:
        scale: float = {c}
        active: bool = True
    config{i} = Config{i}()
loss: if config{i}.active:
        loss = loss * config{i}.scale
between: if k == {m}: config{i}.scale = 0.75
between: if k == {m} + 2: config{i}.active = False
---
setup: class Shared{i}:
        scale = {c}
loss: loss = loss * Shared{i}.scale
between: if k == {m}: Shared{i}.scale = 0.5
---
setup: def scale{i}(v, by=[{c}]):
        by.append(1.0)
        return v * len(by)
loss: loss = scale{i}(loss)
---
setup: SCALE{i} = {c}
loss: loss = loss * SCALE{i}
between: if k == {m}: SCALE{i} = SCALE{i} + 0.5
---
setup: def make{i}():
        n = 0
        def bump():
            nonlocal n
            n += 1
            return n
        return bump
    bump{i} = make{i}()
loss: loss = loss * bump{i}()
---
setup: def pick{i}(v): return v * 2.0
    def other{i}(v): return v - 0.25
    box.pick{i} = pick{i}
loss: loss = box.pick{i}(loss)
between: if k == {m}: box.pick{i} = other{i}
---
setup: def pick{i}(v): return v * 2.0
    def other{i}(v): return v - 0.25
loss: loss = pick{i}(loss)
between: if k == {m}: pick{i}.__code__ = other{i}.__code__
---
setup: flags{i} = {"on": False}
forward: if flags{i}["on"]:
        h = h * 0.5
between: flags{i}["on"] = k % 2 == 1
---
setup: box.parts{i} = [1.0, 0.5]
loss: for part in box.parts{i}:
        loss = loss + part * out.mean()
between: if k == {m}: box.parts{i}.append(0.25)
---
end: result = {"loss": loss, "parts": [out.detach().mean(), k]}
---
end: result = (loss.detach(), loss)
---
setup: names{i} = {n for n, _ in model.named_parameters()}
loss: loss = loss + sum(p.square().sum() for n, p in model.named_parameters() if n in names{i}) * 0.01
between: if k == {m}: names{i}.pop()
"""

ALIASES = """
setup: box.current{i} = ad.zeros(3)
    box.best{i} = box.current{i}
end: box.current{i} = box.current{i} + out.detach().mean(0)
loss: loss = loss + (box.current{i} - box.best{i}).sum() * 0.1
watch: box.current{i}, box.best{i}, box.current{i} is box.best{i}
---
setup: state{i} = {"h": ad.zeros(4)}
    h{i} = state{i}["h"]
forward: h = h + state{i}["h"] + h{i}
end: state{i}["h"] = (state{i}["h"] * 0.5 + x.mean(0)).detach()
watch: state{i}["h"], h{i}
---
setup: pair{i} = [ad.zeros(4)] * 2
forward: h = h + pair{i}[1]
end: pair{i}[0] = pair{i}[0] + x.mean(0)
between: if k == {m}: pair{i}[1] = pair{i}[0]
watch: pair{i}
---
setup: buffer{i} = ad.zeros(2, 4)
    row{i} = buffer{i}[0]
forward: h = h + row{i}
end: buffer{i}.add_(x.mean(0) * 0.1)
watch: buffer{i}, row{i}
---
setup: buffer{i} = ad.zeros(8)[::2]
forward: h = h + buffer{i}
end: buffer{i}.lerp_(x.mean(0), 0.25)
between: if k == {m}: buffer{i}.data = ad.ones(4)
watch: buffer{i}
---
setup: buffer{i} = ad.zeros(4)
    view{i} = buffer{i}.view(2, 2)
end: view{i}.mul_(0.5).add_(x.mean())
forward: h = h + buffer{i}
between: if k == {m}: view{i} = buffer{i}.clone().view(2, 2)
watch: buffer{i}, view{i}
---
end: box.last{i} = out
watch: box.last{i}.detach()
---
end: box.weight{i} = {p}.detach()
watch: box.weight{i}, box.weight{i}.data_ptr() == {p}.data_ptr()
---
end: box.copy{i} = {p}.detach().clone()
watch: box.copy{i}
---
setup: shadow{i} = {p}.detach().clone()
update: shadow{i}.lerp_({p}.detach(), 0.1)
watch: shadow{i}
---
setup: array{i} = np.zeros(4, np.float32)
    left{i}, right{i} = ad.from_numpy(array{i}), ad.from_numpy(array{i})
forward: h = h + right{i}
end: left{i}.add_(1)
watch: left{i}, right{i}
---
setup: array{i} = np.zeros(6, np.float32)
    left{i}, right{i} = ad.from_numpy(array{i}[:4]), ad.from_numpy(array{i}[2:])
forward: left{i}.mul_(0.5).add_(x.mean(0))
    h = h + right{i}
between: if k == {m}: right{i} = left{i} if k % 2 else ad.from_numpy(array{i}[1:5])
watch: left{i}, right{i}, array{i}.tolist()
---
setup: kept{i} = {"state": None}
end: kept{i}["state"] = copy.deepcopy(model.state_dict())
watch: [v for v in kept{i}["state"].values()]
---
setup: kept{i} = []
end: kept{i}.append(out.detach()[0])
watch: kept{i}
---
forward: h0 = h
    h = h.clone()
    h.mul_(1.5)
    h = h + h0 * 0
---
forward: top, rest = h[:1], h[1:]
    h = ad.cat([rest, top])
---
setup: tied{i} = nn.Linear(4, 4, bias=False)
    tied{i}.weight = nn.Parameter(ad.eye(4))
    box.tied{i} = tied{i}.weight
forward: h = tied{i}(h) @ box.tied{i}
watch: tied{i}.weight.grad
between: if k == {m}: tied{i}.weight = nn.Parameter(ad.eye(4) * 2)
---
setup: class Two{i}(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = self.a
        def forward(self, v):
            return self.a(v) + self.b(v.tanh())
    two{i} = Two{i}()
forward: h = two{i}(h)
watch: [p.grad for p in two{i}.parameters()]
between: if k == {m}: two{i}.b = nn.Linear(4, 4)
"""

MODULES = """
between: if k == {m}: {p}.requires_grad_(False)
between: if k == {m} + 2: {p}.requires_grad_(True)
---
between: if k == {m}: model[0].requires_grad_(False)
---
setup: drop{i} = nn.Dropout(0.5)
forward: h = drop{i}(h)
between: drop{i}.train(k % 3 != 2)
---
setup: norm{i} = nn.BatchNorm1d(4)
forward: h = norm{i}(h)
between: norm{i}.train(k % 4 != 3)
watch: norm{i}.running_mean, norm{i}.num_batches_tracked
---
setup: norm{i} = nn.BatchNorm1d(4, momentum=None)
forward: h = norm{i}(h)
watch: norm{i}.running_var
---
setup: norm{i} = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
forward: h = norm{i}(h)
watch: norm{i}.parametrizations.weight[0]._u
---
between: if k == {m}: model[1] = nn.Sigmoid()
---
between: if k == {m}: model.append(nn.Tanh())
---
between: if k == {m}: model[2]._parameters["bias"] = nn.Parameter(ad.ones(3))
---
between: if k == {m}: {p}.data = {p}.data * 0.5
---
between: if k == {m}:
        with ad.no_grad(): {p}.mul_(0.5)
---
between: if k == {m}: model.load_state_dict({n: v * 0.5 for n, v in model.state_dict().items()})
---
setup: calls{i} = []
    box.handle{i} = model[1].register_forward_hook(lambda m, i, o: calls{i}.append(tuple(o.shape)))
between: if k == {m}: box.handle{i}.remove()
watch: calls{i}
---
setup: box.handle{i} = model[1].register_forward_hook(lambda m, i, o: o * 0.5)
between: if k == {m}: box.handle{i}.remove()
---
setup: box.handle{i} = model[0].register_full_backward_hook(lambda m, gi, go: (None if gi[0] is None else gi[0] * 2,))
between: if k == {m}: box.handle{i}.remove()
---
setup: box.handle{i} = {p}.register_hook(lambda g: g * 0.5)
between: if k == {m}: box.handle{i}.remove()
---
setup: norms{i} = []
    {p}.register_post_accumulate_grad_hook(lambda p: norms{i}.append(p.grad.norm()))
watch: norms{i}
---
loss: out.register_hook(lambda g: g * 0.5)
---
setup: grads{i} = {}
loss: out.register_hook(lambda g: grads{i}.__setitem__("out", g))
watch: grads{i}
---
loss: out.retain_grad()
gradients: log.append(out.grad.abs().sum())
---
setup: class Gate{i}(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", ad.zeros(()))
            self.w = nn.Parameter(ad.ones(4))
        def forward(self, v):
            self.steps += 1
            return self.w * v * self.steps
    gate{i} = Gate{i}()
forward: h = gate{i}(h)
watch: gate{i}.steps, gate{i}.w.grad
---
setup: class Memory{i}(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(4, 4)
            self.hidden = None
        def forward(self, v):
            hidden = ad.zeros(1, 4) if self.hidden is None else self.hidden
            hidden = self.cell(v.mean(0, keepdim=True), hidden)
            self.hidden = hidden.detach()
            return v + hidden
    memory{i} = Memory{i}()
forward: h = memory{i}(h)
between: if k == {m}: memory{i}.hidden = None
watch: memory{i}.hidden
---
setup: lazy{i} = nn.LazyLinear(4)
forward: h = lazy{i}(h)
watch: lazy{i}.weight, lazy{i}.weight.grad
---
forward: h = ad.utils.checkpoint.checkpoint(lambda v: v.sin() * v, h, use_reentrant=False)
---
setup: norm{i} = nn.BatchNorm1d(4)
forward: h = ad.utils.checkpoint.checkpoint(norm{i}, h, use_reentrant=False)
watch: norm{i}.num_batches_tracked, norm{i}.running_mean
---
loss: with ad.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        loss = loss + ({p} * {c}).exp().mean()
---
setup: class Double{i}(ad.autograd.Function):
        @staticmethod
        def forward(ctx, v):
            ctx.save_for_backward(v)
            return v * v
        @staticmethod
        def backward(ctx, g):
            (v,) = ctx.saved_tensors
            return g * 3 * v
loss: loss = loss + Double{i}.apply(out).mean()
---
setup: ema{i} = ad.optim.swa_utils.AveragedModel(model)
update: ema{i}.update_parameters(model)
watch: ema{i}.n_averaged, next(ema{i}.parameters())
---
setup: target{i} = copy.deepcopy(model)
forward: teacher = target{i}(h).detach()
loss: loss = loss + F.mse_loss(out, teacher[:, :3])
update: with ad.no_grad():
        for a, b in zip(target{i}.parameters(), model.parameters()):
            a.lerp_(b, 0.1)
watch: [p for p in target{i}.parameters()]
"""

OPTIMIZERS = """
gradients: nn.utils.clip_grad_norm_(model.parameters(), 0.5)
---
gradients: log.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5))
---
gradients: nn.utils.clip_grad_value_(model.parameters(), 0.05)
---
gradients: for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(0.5)
---
setup: scheduler{i} = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
end: scheduler{i}.step()
---
setup: scheduler{i} = optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
between: if k: scheduler{i}.step()
---
setup: scheduler{i} = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
between: if k: scheduler{i}.step(float(k > 2))
---
setup: scheduler{i} = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
end: scheduler{i}.step(loss)
---
between: if k == {m}: optimizer.param_groups[0]["lr"] = 0.003
---
between: if k == {m}: optimizer.param_groups[0]["weight_decay"] = 0.1
---
setup: extra{i} = nn.Parameter(ad.ones(3))
loss: loss = loss + (out * extra{i}).mean()
between: if k == {m}: optimizer.add_param_group({"params": [extra{i}], "lr": 0.5})
watch: extra{i}, extra{i}.grad
---
between: if k == {m}: optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
---
between: if k == {m}: optimizer.state.clear()
---
between: if k == {m}: optimizer.zero_grad(set_to_none=False)
---
between: if k == {m}:
        for p in model.parameters(): p.grad = None
---
between: if k == {m} and {p}.grad is not None: {p}.grad = {p}.grad * 2
---
setup: second{i} = optim.SGD([{p}], lr=0.01)
update: second{i}.step()
---
setup: class Mine{i}(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.01})
        @ad.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["v"] = ad.zeros_like(p)
                        state["n"] = 0
                    state["n"] += 1
                    state["v"].mul_(0.9).add_(p.grad)
                    p.add_(state["v"], alpha=-group["lr"] / state["n"])
    mine{i} = Mine{i}([{p}, {q}])
update: mine{i}.step()
watch: len(mine{i}.state)
---
setup: moments{i} = {}
gradients: with ad.no_grad():
        for p in model.parameters():
            if p.grad is None: continue
            moments{i}[p] = p.grad.clone() if p not in moments{i} else moments{i}[p] * 0.5 + p.grad
            p.grad.copy_(moments{i}[p])
watch: len(moments{i})
"""

VALUES = """
update: if loss.item() < {c}:
        log.append("low")
---
gradients: norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if not ad.isfinite(norm):
        optimizer.zero_grad()
---
setup: box.least{i} = float("inf")
end: if loss.item() < box.least{i}:
        box.least{i} = loss.item()
        box.saved{i} = {p}.detach().clone()
watch: box.least{i}, box.saved{i}
---
end: if k % 3 == 0:
        print(f"{k}: {loss.item():.3f}")
---
end: print("loss", round(loss.item(), 2))
---
end: if loss > {c}:
        result = loss * 2
---
forward: if h.abs().max() > 1.5:
        h = h / h.abs().max()
---
setup: box.scale{i} = 4.0
loss: loss = loss * box.scale{i}
gradients: found = any(bool((~ad.isfinite(p.grad)).any()) for p in model.parameters() if p.grad is not None)
    box.scale{i} = box.scale{i} * (0.5 if found else 1.5)
watch: box.scale{i}
---
setup: scaler{i} = ad.amp.GradScaler("cpu", init_scale=2.0**4, growth_interval=2)
loss: loss = scaler{i}.scale(loss) / 16.0
gradients: scaler{i}.unscale_(optimizer)
    scaler{i}.update()
watch: scaler{i}.get_scale()
---
forward: z = h.abs() + 1.0
    for _ in range(20):
        new = 0.5 * (z + 2.0 / z)
        if (new - z).abs().max() < 1e-3:
            break
        z = new
    h = h * z.detach()
---
forward: chosen = h[h[:, 0] > 0]
    if len(chosen):
        h = h + chosen.mean(0)
---
setup: import random
    random.seed(0)
forward: h = h * random.random()
---
end: box.line{i} = f"{loss:.2f}" if k % 2 else str(k)
watch: float(box.line{i})
---
end: if float(loss) != float(loss):
        raise ValueError("NaN")
"""

ERRORS = """
between: box.fail{i} = k == {m}
update: if box.fail{i}:
        raise ValueError("stop")
---
between: box.fail{i} = k == {m}
forward: box.tries{i} = getattr(box, "tries{i}", 0) + 1
    if box.fail{i}:
        raise KeyError("gone")
watch: box.tries{i}
---
between: box.shape{i} = 5 if k == {m} else 4
forward: h = h + ad.ones(box.shape{i})
---
between: box.fail{i} = k == {m}
forward: try:
        if box.fail{i}:
            raise RuntimeError("caught")
        h = h * 1.5
    except RuntimeError:
        h = h - 0.5
    finally:
        box.ends{i} = getattr(box, "ends{i}", 0) + 1
watch: box.ends{i}
---
setup: table{i} = nn.Embedding(3, 4)
between: box.index{i} = ad.tensor([0, 9 if k == {m} else 1])
forward: box.tries{i} = getattr(box, "tries{i}", 0) + 1
    h = h + table{i}(box.index{i}).sum(0) * 0.1
    box.looked{i} = box.tries{i}
watch: table{i}.weight.grad, box.tries{i}, box.looked{i}
"""

GENERATORS = """
forward: h = h + ad.randn(4) * 0.1
---
forward: h = h * ad.rand_like(h)
between: if k == {m}: ad.manual_seed(5)
---
setup: generator{i} = ad.Generator().manual_seed(3)
forward: h = h + ad.rand(4, generator=generator{i})
---
forward: h = F.dropout(h, 0.25, training=k % 2 == 0)
---
forward: with ad.no_grad():
        h = h + ad.bernoulli(ad.full((4,), 0.5))
"""

LEAVES = """
loss: v = x.clone().requires_grad_()
    (g,) = ad.autograd.grad(model(v).sum(), v, create_graph=True)
    loss = loss + g.square().mean()
---
forward: v = h.detach().clone().requires_grad_()
    v.square().sum().backward()
    h = h + 0.1 * v.grad.sign()
---
forward: delta = ad.zeros_like(h, requires_grad=True)
    (h.detach() + delta).square().sum().backward()
    h = h + delta.grad.detach() * 0.01
---
loss: w = nn.Parameter(ad.ones(3))
    (out.detach() * w).sum().backward()
    loss = loss + (out * w.grad.detach()).mean()
---
end: with ad.enable_grad():
        p = ad.ones(3, requires_grad=True)
        (p * out.detach().mean(0)).sum().backward()
    log.append(p.grad)
"""
GROUPS = {
    "python state": PYTHON_STATE, "aliases": ALIASES, "modules": MODULES, "optimizers": OPTIMIZERS, "values": VALUES,
    "errors": ERRORS, "generators": GENERATORS, "leaves": LEAVES,
}  # fmt: skip
