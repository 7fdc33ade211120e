"""Loads of other kinds of learning: graphs, policies, rankings, quantiles, contrasts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .recipe import Recipe, draw_batches, load


@load("graph-attention", "graph attention: a softmax over each node's edges by scatter", nodes=6, edges=12, width=4)
def graph_attention(nodes: int = 1500, edges: int = 12000, width: int = 48) -> Recipe:
    """After Veličković and others, 2018: two layers."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn

        class Layer(nn.Module):  # type: ignore[misc]
            def __init__(self, a: int, b: int) -> None:
                super().__init__()
                self.project = nn.Linear(a, b, bias=False)
                self.score = nn.Linear(2 * b, 1)

            def forward(self, x: Any, source: Any, target: Any) -> Any:
                h = self.project(x)
                scores = nn.functional.leaky_relu(self.score(library.cat([h[source], h[target]], 1)), 0.2).squeeze(1)
                largest = library.full((nodes,), -1e9).scatter_reduce(0, target, scores.detach(), "amax")
                weights = (scores - largest[target]).exp()
                total = library.zeros(nodes).index_add(0, target, weights)
                return library.zeros_like(h).index_add(0, target, h[source] * (weights / total[target])[:, None])

        first, second = Layer(32, width), Layer(width, 7)
        model = nn.ModuleList([first, second])

        def loss(x: Any, source: Any, target: Any, y: Any) -> Any:
            hidden = nn.functional.elu(first(x, source, target))
            return nn.functional.cross_entropy(second(hidden, source, target), y)

        return model, loss

    batches = draw_batches(
        lambda n: (
            n.normal(size=(nodes, 32)), n.integers(0, nodes, edges), n.integers(0, nodes, edges),
            n.integers(0, 7, nodes),
        )
    )  # fmt: skip
    return Recipe(batches, build)


@load("policy-gradient", "a clipped policy gradient with advantages summed over time", envs=2, steps=3)
def policy_gradient(envs: int = 16, steps: int = 32) -> Recipe:
    """After Schulman and others, 2017: one update."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        body = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        policy, value = nn.Linear(64, 6), nn.Linear(64, 1)
        model = nn.ModuleList([body, policy, value])

        def loss(states: Any, actions: Any, rewards: Any, old: Any) -> Any:
            hidden = body(states)
            values = value(hidden).squeeze(-1)
            with library.no_grad():
                advantages, running = [], library.zeros(envs)
                for t in reversed(range(steps)):
                    after = values[t + 1] if t + 1 < steps else library.zeros(envs)
                    running = rewards[t] + 0.99 * after - values[t] + 0.95 * 0.99 * running
                    advantages.append(running)
                advantage = library.stack(advantages[::-1])
                returns = advantage + values
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            chances = library.distributions.Categorical(logits=policy(hidden))
            ratio = (chances.log_prob(actions) - old).exp()
            gain = library.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            return 0.5 * nn.functional.mse_loss(values, returns) - gain - 0.01 * chances.entropy().mean()

        return model, loss

    batches = draw_batches(
        lambda n: (
            n.normal(size=(steps, envs, 12)), n.integers(0, 6, (steps, envs)), n.normal(size=(steps, envs)),
            np.full((steps, envs), -1.79),
        )
    )  # fmt: skip
    return Recipe(batches, build, "Adam", {"lr": 3e-4}, max_norm=0.5)


@load("ranking", "matrix factorisation with a pairwise ranking loss, bags of features", users=9, items=7, batch=4)
def ranking(users: int = 20000, items: int = 8000, batch: int = 1024) -> Recipe:
    """After Rendle and others, 2009."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        user, item, bag = nn.Embedding(users, 24), nn.Embedding(items, 24), nn.EmbeddingBag(500, 24, mode="mean")
        model = nn.ModuleList([user, item, bag])

        def loss(u: Any, liked: Any, other: Any, features: Any) -> Any:
            who = user(u) + bag(features)
            return -nn.functional.logsigmoid((who * (item(liked) - item(other))).sum(1)).mean()

        return model, loss

    batches = draw_batches(
        lambda n: (
            n.integers(0, users, batch), n.integers(0, items, batch), n.integers(0, items, batch),
            n.integers(0, 500, (batch, 6)),
        )
    )  # fmt: skip
    return Recipe(batches, build, "Adagrad", {"lr": 0.05})


@load("quantiles", "sorted quantiles of a return: cumulative sums, sort, Huber's loss", atoms=4, batch=3)
def quantiles(atoms: int = 32, batch: int = 256) -> Recipe:
    """Distributional regression after Dabney and others, 2018, with crossing quantiles sorted."""

    def build(library: Any) -> tuple[Any, Any]:
        nn = library.nn
        trunk, gaps, shift = nn.Linear(16, 128), nn.Linear(128, atoms), nn.Linear(128, 1)
        model = nn.ModuleList([trunk, gaps, shift])
        levels = (library.arange(atoms) + 0.5) / atoms

        def loss(x: Any, y: Any) -> Any:
            hidden = library.relu(trunk(x))
            guesses = shift(hidden) + nn.functional.softplus(gaps(hidden)).cumsum(1) - atoms / 2
            guesses = guesses.sort(1).values
            apart = y[:, None] - guesses
            huber = nn.functional.huber_loss(guesses, y[:, None].expand_as(guesses), reduction="none")
            worst = huber.topk(atoms // 2, 1).values.mean()
            return ((levels - (apart < 0).float()).abs() * huber).mean() + 0.1 * worst

        return model, loss

    batches = draw_batches(lambda n: ((x := n.normal(size=(batch, 16))), x[:, 0] * n.normal(size=batch)))
    return Recipe(batches, build)


@load("contrast", "two views, an exponential moving average of the encoder, contrasted", width=4, batch=4)
def contrast(width: int = 128, batch: int = 256) -> Recipe:
    """After He and others, 2020, without a queue: the target network follows by `lerp_`."""

    def step_of(library: Any) -> Any:
        nn = library.nn
        library.manual_seed(0)

        def encoder() -> Any:
            return nn.Sequential(
                nn.Linear(64, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width), nn.BatchNorm1d(width),
                nn.ReLU(), nn.Linear(width, 32),
            )  # fmt: skip

        online, target = encoder(), encoder()
        target.load_state_dict(online.state_dict())
        target.requires_grad_(False)
        optimizer = library.optim.SGD(online.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

        def step(x: Any, noise: Any) -> Any:
            q = nn.functional.normalize(online(x + noise), dim=1)
            with library.no_grad():
                for old, new in zip(target.parameters(), online.parameters(), strict=True):
                    old.lerp_(new, 0.01)
                k = nn.functional.normalize(target(x - noise), dim=1)
            loss = nn.functional.cross_entropy(q @ k.T / 0.2, library.arange(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    batches = draw_batches(lambda n: (n.normal(size=(batch, 64)), 0.2 * n.normal(size=(batch, 64))))
    return Recipe(batches, step=step_of)
