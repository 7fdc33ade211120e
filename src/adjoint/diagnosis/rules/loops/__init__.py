"""Rules of `ad.doctor` on the loops around a step: its order, its gradients, its schedules, and evaluation.

Modules, in reading order:

- `steps`: Rules on the order of a training step: clearing of gradients, rates, schedules, and what the loss does.
- `training_loop`: Rules on loops: gradients that are cleared too often or come from another loss, schedules and
  samplers.
- `clipping`: Rules on gradients between backward and step: clipped too late or too early, and those that are still
  scaled.
- `schedules`: Rules on schedules: a mode that is not of the metric, and steps of another unit than the schedule
  counts.
- `evaluation`: Rules on evaluation: data in another scale than in training, samples of both, and thresholds of
  logits.
- `accumulation`: Rules on gradients that several passes add up: cleared too early, used too early, or not divided by
  their number.
- `copies`: Rules on who is trained with what: a copy in place of the model, and rows that are to validate.
- `rates`: Rules on what a step takes: rates of groups that lie orders apart, and gradients cut off by hand.
- `weights`: Rules on weights: replaced or drawn anew while a model runs, or much too large at the start.
- `held_out`: Rules on held-out data: samples that training has too, and samples that a dataset changes at random.
- `groups`: Rules on groups of parameters: options that nobody reads, rates that follow one group alone, or a loaded
  state.
- `states`: Rules on states: a state dict that was never copied, one that loads nothing, a target network that never
  follows.
- `gradient_sizes`: Rule on the sizes of gradients: those that vanish or explode on the way back, by module.
"""
