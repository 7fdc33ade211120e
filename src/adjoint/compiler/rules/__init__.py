"""Rewrite rules: each a Python function that returns two expressions, before and after, of equal value."""
