"""Rules of `ad.doctor` on agents: their policies, and the targets that rewards give.

Modules, in reading order:

- `actions`: Rules on the gradient of policies: actions that are never drawn, advantages turned round, probabilities
  unlogged.
- `policies`: Rules on policies: ratios of probabilities, the choice of surrogates, and values at an episode's end.
- `temporal_targets`: Rules on targets of reinforcement learning: the next value past an episode's end, indices for
  values, the order.
"""
