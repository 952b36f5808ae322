"""The mechanism: multi-head attention, its kernels, masks, positions, cache and laws."""
