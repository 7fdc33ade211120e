"""Rewrite rules: each a Python function that yields an expression, and then another of equal value, to the last bit."""
