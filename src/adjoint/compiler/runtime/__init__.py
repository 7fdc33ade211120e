"""What runs a program's kernels: the entry into native code, and the threads that share their tiles."""
