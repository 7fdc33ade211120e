"""How other libraries work with tensors: NumPy, DLPack, the array API standard, einops."""
