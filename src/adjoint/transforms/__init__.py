"""Functions of functions: derivatives forward and reverse, batches, and their composition.

Modules, in reading order:

- `argnums`: Arguments and results of transforms: arguments chosen by number, and checks.
- `forward`: Forward mode: dual numbers, and the rules that push tangents forward.
- `functional_call`: Modules as functions of their parameters and buffers, and functions without writes.
- `vmap`: `vmap`: batched tensors, and the rules by which ops take them.
- `associative_scan`: Scans with any associative function: what stands before each place, joined with it.
- `functional`: `torch.autograd.functional`: products with Jacobians and Hessians of a function.
- `level`: Levels of transforms in the recorded graph: the leaves of a transform, and which results lead further back.
- `per_sample_grads`: The gradient of every example of a batch: what optimizers that keep data private ask for.
- `grad`: Derivatives of functions as functions: `grad`, `vjp`, `jvp` and what is made of them, composing to any
  depth.
- `jacobian`: Whole derivatives: Jacobians by rows in reverse mode, by columns in forward mode, and Hessians.
"""
