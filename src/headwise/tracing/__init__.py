"""Recording, checking and editing what the heads of a model compute, at the kernel and nowhere else."""
