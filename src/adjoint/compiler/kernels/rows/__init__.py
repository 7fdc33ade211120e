"""Work along one dimension: running results, sorting, searches, Fourier transforms, in lines of any number and length.

Modules, in reading order:

- `plan`: Plans of kernels along one dimension: how the lines of an array lie, and the numbers that one text is called
  with.
- `scan`: Running sums, products, logarithms of sums of exponentials, and positions of running extremes.
- `sort_keys`: Elements as integers in the order of a stable sort: equal ones by their index, NaN as the largest.
- `sort_network`: Batcher's odd-even merge sort of rows side by side: each lane sorts a row of its own, all by the
  same exchanges.
- `radix_sort`: Sorting of one long row: byte by byte of its keys, from the last to the first.
- `order_writer`: Parts of all writers of sorting kernels: the operands, the numbers of a call, and the rank of a
  median.
- `sort_across`: Sorting of as many rows at a time as a register has lanes, each in a lane of its own.
- `sort_along`: Sorting of one long row at a time: a list of the first few, a selection by leading bits, a radix sort.
- `sort`: Positions in sorted order along a dimension: all of them, the first ones, or those from a rank on.
- `search`: Searches in sorted rows: a register of values at a time, all by the same steps.
- `fft_stages`: Fourier transforms of small prime factors, by stages.
- `fft`: Fourier transforms along one dimension: of complex numbers, and between real ones and half a spectrum.
- `catalogue`: The plans of all kernels along a dimension, by op.
- `lowering`: Kernels along a dimension: their text, for an equation of a graph or an eager call.
- `recurrence`: Linear recurrences along a dimension, from its end to its beginning: R[i] = g[i] + factor[i] R[i + 1].
- `extremes`: Positions of the first largest, or smallest, elements along a dimension.
"""
