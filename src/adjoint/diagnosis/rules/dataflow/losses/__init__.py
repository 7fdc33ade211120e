"""Rules of `ad.doctor` on the terms of a loss: their signs, their sizes, and whether anything takes them.

Modules, in reading order:

- `signs`: Rules on the signs of a loss: terms that are made large or small without a limit, and terms without a
  gradient.
- `scales`: Rules on the sizes of terms and predictions: a mean beside a sum, a mean over masked steps, a clamped
  prediction.
- `uses`: Rules on the losses of a pass: those that no backward pass takes, and one that stands in the sum twice.
- `likelihoods`: Rules on likelihoods: a variance without its logarithm, the smaller side of a quantile, all pairs of
  log_prob.
- `class_weights`: Rule on the weights of classes: larger for the frequent ones, where the rare ones were to count
  more.
- `geometry`: Rules on densities and boxes: the sign of a log-determinant, areas of no intersection, one factor for a
  batch.
- `pairs`: Rules on scores of pairs: negatives drawn near, sums over the batch, contrasts of vectors of any length.
- `stops`: Rules on gradients that are to stop: at the target of a siamese pair, at a teacher, at the codes of a
  quantizer.
- `hand_made`: Rules on losses and limits that are written by hand: signed errors, a softmax of everything, limits
  exchanged.
- `loss_rules`: The rules on likelihoods, pairs, shapes and gradients in losses, and on those that are written by
  hand, in order.
- `cancellations`: Rules on terms that cannot teach: a value that is subtracted from itself, a distance of each sample
  to itself.
- `formulas`: Rules on formulas that are written out: branches and signs the wrong way round, factors and terms
  without a limit.
"""
