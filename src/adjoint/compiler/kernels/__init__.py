"""Kinds of kernels: from a group of equations to the text of one function."""
