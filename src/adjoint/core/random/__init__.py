"""Random numbers: generators with PyTorch's streams, and the distributions drawn from them.

Modules, in reading order:

- `box_muller`: The Box-Muller transform, √(-2 ln(1 - u)) · (cos 2πv, sin 2πv), with the bits of PyTorch's CPU
  kernels.
- `mt19937`: The 32-bit Mersenne Twister MT19937: a seed gives an endless stream of words, whose state can be read and
  set.
- `rejection_sampling`: The integers that a draw into a dtype may cover: those asked for, as far as the dtype tells
  them apart.
- `generator_state`: Where a stream of random numbers stands: its seed, its states, which are PyTorch's, and what
  comes next.
- `generator`: Random numbers as arrays: PyTorch's CPU generator, with its numbers, its use of the stream and its
  states.
- `samplers`: Samples of the less usual distributions, with PyTorch's CPU numbers: each function moves a generator as
  that does.
- `libm_functions`: The C library's functions per element, from whose bits NumPy's vector code strays by 1 ulp, and
  samples with it.
"""
