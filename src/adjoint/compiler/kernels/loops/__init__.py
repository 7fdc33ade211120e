"""Loop nests: elementwise equations and folds."""
