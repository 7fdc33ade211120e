"""Compiled code kept between runs.

Modules, in reading order:

- `hashing`: Digests that keep keys of caches apart and seal entries: BLAKE2b, of 32 bytes (RFC 7693).
- `disk_cache`: Files which only this user can have written: entries by key in a directory, each with a code that
  shows it whole.
- `source_fingerprint`: The state of this package's source files, which tells what one version of it made from what
  another would make.
- `object_cache`: Object code kept between compilations, in memory and on disk.
- `plan_cache`: The cache of plans on disk: a trace that another process has compiled is bound at once.
- `plan_codec`: Plans as bytes: rows of numbers for equations, views, groups and kernels.
"""
