"""Rules of `ad.doctor` on where values come from and go to: their sources, their signs, their order.

Modules, in reading order:

- `latent_noise`: Rules on noise: of a latent space whose deviation is its variance, that is drawn once, and that a
  model never saw.
- `model_inputs`: Rules on what a model gets: a target with the same noise as the input, a random state, arguments
  that are crossed.
- `recurrent_outputs`: Rules on what a recurrent layer gives and gets: another dimension than time, padded steps, one
  direction of two.
- `sample_order`: Rules on the order of samples: inputs that are shuffled alone, and results in another order than
  their targets.
- `scores`: Rules on scores before a softmax: scaled up, masked with 0, of each sample with itself, or probabilities
  already.
- `unused_results`: Rule on results that nobody uses: `x.clamp(0, 1)` or `loss + penalty` as a line of its own.
- `weight_averages`: Rule on averages of weights: a copy that takes nearly all of the new ones in each step.
- `choices`: Rules on choices: along the samples, by a confidence that learns, with margins of labels, against an
  entropy.
- `idle_parts`: Rules on what takes part and does nothing: tables of zeros, factors of 0, reversals that reverse
  nothing, loaders.
- `custom_functions`: Rule on functions of the user's with a backward of their own: gradients that are not those of
  their forward.
- `unused_parts`: Rules on parts that are made and never used: a dropout that no forward calls, a schedule that never
  goes on.
- `label_values`: Rules on labels: a loss of a value with itself, classes that are cut off fractions, classes balanced
  twice.
- `softmax_dimensions`: The rule on the dimension of a softmax: not over the batch, queries, or the features of a
  weighted sum over steps.
- `target_batches`: Rules on the targets of all batches: labels that are all the same, or that come in order of their
  class.
- `units`: Rules on hidden units: those that are 0 for all samples, and those that are saturated for all.
- `lost_parts`: Parts that no model has registered: who holds them, and the lines that made them.
- `learning_rate`: Rule on learning rates: a loss that grows, steps as large as the parameters, or too small to change
  them.
- `losses`: Rules of `ad.doctor` on the terms of a loss: their signs, their sizes, and whether anything takes them.
- `agents`: Rules of `ad.doctor` on agents: their policies, and the targets that rewards give.
- `inputs`: Rules of `ad.doctor` on what models get: adjacency matrices, pictures, mixtures of samples, windows of a
  series.
"""
