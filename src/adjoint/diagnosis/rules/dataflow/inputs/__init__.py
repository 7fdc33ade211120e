"""Rules of `ad.doctor` on what models get: adjacency matrices, pictures, mixtures of samples, windows of a series.

Modules, in reading order:

- `adjacency`: Rule on graphs: an adjacency matrix that is used as it is, without self-loops and degrees.
- `attacks`: Rule on adversarial samples: a step of the input down the loss, of the labels that it is to miss.
- `axes`: Rules on axes: channels that are time steps, the best of a batch, columns of all samples for each.
- `mixtures`: Rules on batches: samples mixed with others whose labels are not, and targets that are the last step of
  the input.
- `ranges`: Rules on ranges: statistics of pictures over the wrong dimensions, real samples beside those of a
  generator.
"""
