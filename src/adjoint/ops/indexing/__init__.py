"""Ops that read or write at computed positions, and those that sort.

Modules, in reading order:

- `indexing`: Reading and adding at positions which are themselves data.
- `nonzero`: Positions of the elements that are not zero, and histograms of one or several dimensions.
- `sort`: Positions in sorted order: searches, ranks, the leading elements.
- `scatter`: Writing at positions along one dimension, and folding what meets there.
"""
