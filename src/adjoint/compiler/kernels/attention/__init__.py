"""Scaled dot products of queries and keys, and what they weigh.

Modules, in reading order:

- `tile_matmul`: Products of matrices that lie in a cache: a tile of the result in registers, A read element by
  element.
- `plan`: The plan of an attention kernel: blocks of rows, tiles, scratch memory.
- `call`: An equation of attention as the call of a kernel: its plan and where its operands lie.
- `transpose`: Rows of a matrix written side by side into lanes: what a product over its columns reads.
- `softmax_block`: The weights of a block of rows: scores, what hides keys, and their exponentials.
- `forward`: The attention kernel: blocks of rows of each head against all keys that they see, the weights in a cache.
- `backward`: The gradient of the attention kernel: all of one head, a block of rows at a time, its weights computed
  again.
- `lowering`: An equation of attention as a kernel: where its operands lie, and the text for them.
"""
