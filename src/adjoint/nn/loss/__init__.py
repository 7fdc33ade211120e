"""Losses as modules.

Modules, in reading order:

- `adaptive_softmax`: A softmax over many classes whose rare ones are grouped, so that most are not computed in
  training.
- `losses`: What losses as modules have in common, for programs that derive their own from it.
- `margin`: Losses with margins, of distributions, of sequences and of triplets as modules.
"""
