"""Rules of `ad.doctor` on what models get: adjacency matrices, pictures, mixtures of samples, windows of a series.

Modules, in reading order:
"""
