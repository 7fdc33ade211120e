"""The public functions, each written once; `method` makes one a method of Tensor too."""
