"""Rules of `ad.doctor` on the program's text: what no tensor shows, such as comparisons and what a buffer is given.

Modules, in reading order:
"""
