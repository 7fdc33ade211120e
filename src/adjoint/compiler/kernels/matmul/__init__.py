"""Matrix products.

Modules, in reading order:

- `bf16_rounding`: The choice of bfloat16 instructions for a product, and how many bfloat16 stand for one float32.
- `gated_epilogue`: The end of a product whose columns are gates: of each unit all parts at once, as its columns lie
  interleaved.
- `blocking`: The blocks of registers of a matrix product: a model of its time chooses among all that fit.
- `product`: A planned matrix product: what its plan has decided, and what follows from that.
- `operand`: An operand of a matrix product as it is packed: an array, or what is computed of the elements of several.
- `packing`: Operands copied into scratch memory, in the order in which a matrix product reads them.
- `bf16_pairs`: Operands rounded to bfloat16 in scratch memory: two neighbours along the depth take the place of one
  float32.
- `microkernel`: The innermost loops of a matrix product: one block of the result, summed over a stretch of the depth
  in registers.
- `amx_tiles`: Products in tile registers (AMX): 16 × 16 sums, or 16 rows of 16 pairs of bfloat16, in each of eight.
- `scratch`: The scratch memory of a matrix product: what one thread keeps of its tile between packing and finishing.
- `pack_driver`: The operands of a matrix product packed into scratch memory, as its plan wants them.
- `plan`: The plan of a matrix product: everything that is decided from its shape before its code is written.
- `packed_operand`: The operands of a matrix product that are packed and can be computed meanwhile, as fusion asks for
  them.
- `prologue`: The beginning of a matrix product: an operand that is packed anyway is computed then, and not read from
  memory.
- `panel_layout`: The layout of a matrix product as its kernel counts it: panels of rows and columns, scratch memory.
- `matmul`: Batched matrix products, each written for its shape: panels of columns, packed where that pays, blocks of
  registers.
- `lowering`: Matrix products of a graph as kernels: operands read where they lie, batches of one matrix as its rows.
"""
