"""Losses as modules.

Modules, in reading order:

- `adaptive_softmax`: A softmax over many classes whose rare ones are grouped, so that most are not computed in
  training.
- `losses`: Losses as modules, and the bases from which programs derive their own.
- `margin`: Losses with margins, of distributions, of sequences and of triplets as modules.
"""
