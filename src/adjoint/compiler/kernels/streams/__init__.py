"""Draws from random streams."""
