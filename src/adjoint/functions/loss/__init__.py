"""Losses.

Modules, in reading order:

- `regression`: Losses: how far a prediction is from its target, as one number or one for each sample.
- `classification`: Losses of classifiers, whose targets are classes: cross entropy and what it is made of.
- `ctc`: Connectionist temporal classification: the loss of a sequence of labels whose times are not known.
- `similarity`: Similarities and distances, and the losses that compare distributions, directions and distances.
- `margin`: Losses with margins between classes, losses of distributions with a variance or a rate, and of triplets.
- `ctc_recursion`: The recursion of connectionist temporal classification on arrays: all times in one node, with its
  gradient.
"""
