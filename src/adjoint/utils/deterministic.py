"""What `use_deterministic_algorithms` entails for memory that nobody wrote."""

from __future__ import annotations

fill_uninitialized_memory: bool = True  # kept for programs that set it: memory that is new here is always zeros
