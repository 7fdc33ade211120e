"""Reading and writing at positions which are data."""
