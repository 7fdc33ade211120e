"""PyTorch's samples in every mode of use: `MODES` has a check of one sample for each, `REASONS` what may differ.

Modules, in reading order:

- `checks`: The checks that the modes share: derivatives along a direction, variants, derived samples.
- `modes`: The table of modes: which samples each of them takes, and how one of them is checked.
- `reasons`: What differs from PyTorch for a reason, a sentence for each.
- `sweep`: Runs of all samples of a mode: what is right, what differs, with the first message of each.
"""
