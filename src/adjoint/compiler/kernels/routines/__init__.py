"""Routines: native functions for small arrays of any size, which eager calls take where NumPy would need several."""
