"""Kinds of work beside the thirteen that the library was tuned on: each written once, for either library."""

from __future__ import annotations

from . import learning, science, sequences, vision
from .recipe import LOADS, TINY_LOADS

__all__ = ["LOADS", "TINY_LOADS", "learning", "science", "sequences", "vision"]
