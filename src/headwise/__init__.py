"""Multi-head attention computed, shown and trusted, head by head."""
