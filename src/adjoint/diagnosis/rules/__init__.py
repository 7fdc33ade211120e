"""Rules of `ad.doctor`: each sees the events of a watched program, and names one kind of mistake.

Modules, in reading order:

- `data`: Rules on data: its scale, its order, labels and batches that never change.
- `memory`: Rules on memory: graphs that are kept from step to step, and writes that the graph does not see.
- `missing_gradients`: Rules on parameters that get no gradient, or that no optimizer has.
- `modes`: Rules on modes: evaluation mode while training, training mode while evaluating, and normalization of one
  value.
- `probabilities`: Rules on probabilities: softmax or sigmoid applied twice, and softmax over the wrong dimension.
- `shapes`: Rules on shapes and types of operands: broadcasting that makes all pairs, and double precision that slips
  in.
- `steps`: Rules on the order of a training step: clearing of gradients, rates, schedules, and what the loss does.
- `values`: Rules on values: the first NaN, gradients that vanish or explode, units that never fire.
- `sharing`: Rules on what was made twice: weights that shall be shared, and functions that are compiled again and
  again.
- `writes`: Rules on writes: data that changes with each pass, and values that are written behind the graph's back.
"""
