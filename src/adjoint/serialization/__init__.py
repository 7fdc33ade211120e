"""Values on disk: the safetensors format, nested checkpoints in it, and atomic replacement of files."""
