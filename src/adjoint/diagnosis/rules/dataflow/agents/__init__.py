"""Rules of `ad.doctor` on agents: their policies, and the targets that rewards give.

Modules, in reading order:
"""
