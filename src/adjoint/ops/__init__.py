"""The primitives, each declared once: a NumPy function, its gradient rules, its spec and its lowering."""
