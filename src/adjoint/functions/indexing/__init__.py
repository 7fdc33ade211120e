"""Indexing, gathering and scattering.

Modules, in reading order:

- `traced_masks`: Writing where a mask is true while its values are not known, for a step is traced: by `where`, and
  running counts.
- `getitem`: Reading and writing in brackets: `x[…]` and `x[…] = value`.
- `gather`: Elements gathered from, and added at, positions along a dimension.
- `scatter`: Writing, adding and folding at positions that are data: along one dimension, or at index arrays.
- `masked_nonzero`: Choices by masks, and positions of the elements that are not zero.
- `index_plan`: The plan of an index expression: slices, integers, new dimensions and index arrays, in the order of
  their use.
- `direct_write`: In-place writes at positions that are data, into the array itself: what `in_place` tries before it
  makes a copy.
"""
