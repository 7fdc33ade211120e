"""Schedules of learning rates.

Modules, in reading order:

- `scheduler`: What every schedule of learning rates is: a count of epochs, and the rates that belong to it.
- `cosine_restarts`: Cosines of the learning rate, one after the other.
- `cyclic`: Cycles of the learning rate between two bounds, while the momentum goes the other way.
- `one_cycle`: One cycle of the learning rate, up and down again, while the momentum goes down and up.
- `reduce_on_plateau`: A learning rate that falls when a measured value stops improving.
- `chained`: Schedules made of schedules: one after the other, or all together.
- `schedules`: Schedules of the learning rate, each with the rate it gives at an epoch.
"""
