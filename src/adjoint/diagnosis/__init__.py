"""Diagnosis: what is wrong with a program, told by its lines and the user's names."""
