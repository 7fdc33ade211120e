"""Remedies for shapes that do not fit: layers, products, broadcasting, views, joins, indices.

Modules, in reading order:

- `fitting`: Remedies for layers and products that do not fit their input: features, channels, kernels, inner sizes.
- `batches`: Remedies for batches: columns against rows, images without a batch, joins of unlike dimensions, sizes
  below 0.
- `broadcasting`: Remedies for operands that do not broadcast: rows and classes, tables longer or shorter, results of
  two layers.
- `recurrent`: Remedies for recurrent layers: first states, features, steps merged with samples, packed sequences.
- `attention`: Remedies for attention: widths and heads, masks of queries, keys and padding, batches.
- `indices`: Remedies for indices: of another type, past the end, of fewer dimensions, rows that a table has not.
- `views`: Remedies for views, joins and dimensions: sizes that do not multiply, parts that differ, letters of einsum.
- `conversions`: Remedies for values read in another form: bytes as numbers, vectors as matrices, signals shorter than
  a window.
- `number_origins`: Origins of numbers: where the size of a layer comes from, through the arguments of the classes
  around it.
- `size_origins`: Remedies for sizes that differ, by what made them: a size that a call was given, a reduction that
  one side lacks.
- `unpacked_values`: Remedies by what stands beside a value: the others that one statement unpacked, and tensors with
  its sizes.
- `index_dimensions`: Remedies for indices of gather and scatter with fewer dimensions than what they choose from.
- `merged_samples`: Views that merge samples with other dimensions, in the forward of the model that gave a loss its
  input.
- `products`: Remedies for matrix products: inner sizes that differ, and masks that have made scores too wide.
- `target_shapes`: Remedies for predictions and targets of different shapes.
- `shortcuts`: Remedies for sums around a block: shortcuts of another size, convolutions without padding, maps of two
  scales.
- `joins`: Remedies for joins of tensors: sizes that differ beside the joined dimension, and stacks of unequal ones.
- `lost_dimensions`: Remedies for operations along another dimension than is meant, which took from a tensor the size
  that a layer takes.
- `short_tables`: Tables, buffers and samples that an index goes past, or an operand does not fit: what makes them, of
  what size.
- `masks`: Remedies for masks of `where` of other sizes than what they choose from.
"""
