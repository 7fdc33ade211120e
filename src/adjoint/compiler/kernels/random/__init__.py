"""Draws from random streams.

Modules, in reading order:

- `box_muller`: The Box-Muller transform in native code, with the bits of `core.boxmuller`, whose numbers and order it
  has.
- `mt19937`: The words of a Mersenne Twister in native code: state read from memory, words in vectors, state written
  back.
- `draw`: Kernels that draw: a generator's next numbers written to memory, its state moved on, bit for bit as eagerly.
- `eager`: Draws for eager calls, any number at once: uniforms, normals, integers and permutations, bit for bit.
- `lowering`: Draws from a random stream as kernels of a graph.
"""
