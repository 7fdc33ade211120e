"""Digests that keep keys of caches apart and seal entries: BLAKE2b, of 32 bytes (RFC 7693).

`hashlib` loads the whole library of OpenSSL for other digests, which takes longer than a plan that is on disk.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b  # hashlib's own, of which it has a name only once OpenSSL is loaded
except ImportError:  # a Python that is put together in another way
    from hashlib import blake2b

DIGEST_BYTES = 32


def digest(text: str) -> str:
    """Return the hash of a text, in hexadecimal digits."""
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def sign(secret: bytes, content: bytes) -> bytes:
    """A code that only who has the secret can make of the content."""
    return blake2b(content, digest_size=DIGEST_BYTES, key=secret).digest()


def new_hasher() -> blake2b:
    """A digest to `update` part by part."""
    return blake2b(digest_size=DIGEST_BYTES)
