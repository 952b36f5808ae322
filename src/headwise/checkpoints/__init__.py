"""Bytes to tensors to models: files, tokenizers, and where they come from."""
