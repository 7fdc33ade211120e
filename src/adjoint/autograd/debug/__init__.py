"""Tools that look at a graph: anomaly mode, memory, single steps, missing gradients.

Modules, in reading order:

- `anomaly_mode`: Anomaly detection: the op that makes the first NaN is found while the program runs forward, or else
  in backward.
- `backward_steps`: The backward walk, one node at a time, with the counts that say why a node may run.
- `memory_report`: Memory report of a graph: the values saved for its backward pass, by line and op, in bytes.
- `why_no_grad`: Why a tensor has no gradient: where the recording ended, or why the last backward pass did not come
  by.
"""
