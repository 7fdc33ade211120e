"""Rules of `ad.doctor`: each sees the events of a watched program, and names one kind of mistake.

Modules, in reading order:

- `attention`: Rules on masks and positions: the future that a language model sees, masks that are added as 0 and 1.
- `data`: Rules on data: its scale, its order, labels and batches that never change.
- `layer_options`: Rules on options of layers and optimizers that mean something else than in other libraries.
- `loss_terms`: Rules on the terms of a loss: means that are taken too early, penalties without a gradient, wrong
  signs.
- `memory`: Rules on memory: graphs that are kept from step to step, and writes that the graph does not see.
- `metrics`: Rules on predictions and metrics: thresholds of logits, the best sample for the best class, one-hot
  labels, means.
- `missing_gradients`: Rules on parameters that get no gradient, or that no optimizer has.
- `modes`: Rules on modes: evaluation mode while training, and training mode while evaluating, of a model or its
  parts.
- `probabilities`: Rules on probabilities: softmax or sigmoid applied twice, and softmax over the wrong dimension.
- `repeated_layers`: Rules on layers: one in several places, copies of weights that were to be shared, two with
  nothing between them.
- `settings`: Rules on what is set around the steps: optimizers' options, attributes nobody reads, clipping,
  compilation.
- `shapes`: Rules on shapes of operands: broadcasting that makes all pairs, layers that go along the batch, pooled
  channels.
- `targets`: Rules on what a loss gets: targets outside of its range, arguments in the wrong order, logits for
  logarithms.
- `tokens`: Rules on padded sequences of tokens: padding that is learned, attended to, or that stands for a real
  class.
- `values`: Rule on values: the first NaN, or infinity, and the line that made it.
- `writes`: Rules on writes: data that changes with each pass, and values that are written behind the graph's back.
- `dataflow`: Rules of `ad.doctor` on where values come from and go to: their sources, their signs, their order.
- `loops`: Rules of `ad.doctor` on the loops around a step: its order, its gradients, its schedules, and evaluation.
- `source`: Rules of `ad.doctor` on the program's text: what no tensor shows, such as comparisons and what a buffer is
  given.
- `norms`: Rules on norms and frozen layers: statistics of one value, dropout and statistics of what is not trained.
"""
