"""Rules of `ad.doctor` on what models get: adjacency matrices, pictures, mixtures of samples, windows of a series.

Modules, in reading order:

- `adjacency`: Rules on graphs: an adjacency matrix without self-loops and degrees, messages that go back to where
  they are from.
- `axes`: Rules on axes: channels that are time steps, the best of a batch, columns of all samples for each.
- `mixtures`: Rules on batches: samples mixed without their labels, targets within the input, attacks that help.
- `ranges`: Rules on ranges: statistics of pictures over the wrong dimensions, real samples beside those of a
  generator.
- `input_rules`: The rules on what models get, in their order.
- `mixed_views`: Rule on views and reshapes that give the right shape, and mix the elements.
- `cut_values`: Rules on values that are lost before a model sees them: cut by limits, outweighed by one, or known too
  early.
- `number_types`: Rules on types of numbers: double precision that slips in, and bytes that wrap around.
"""
