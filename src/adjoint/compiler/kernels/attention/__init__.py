"""Scaled dot products of queries and keys, and what they weigh."""
