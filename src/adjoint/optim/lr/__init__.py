"""Schedules of learning rates.

Modules, in reading order:

- `scheduler`: Base class of learning rate schedules, and the options of parameter groups that they set.
- `cosine_restarts`: Cosine schedule of the learning rate with warm restarts.
- `cyclic`: Cycles of the learning rate between two bounds, while the momentum goes the other way.
- `one_cycle`: One cycle of the learning rate, up and down again, while the momentum goes down and up.
- `reduce_on_plateau`: Schedule of the learning rate by a metric that stops improving.
- `chained`: Schedules made of schedules: one after the other, or all together.
- `schedules`: Schedules of the learning rate by closed formulas of the epoch.
"""
