"""What a tensor is and what an op is; everything else is built from these."""
