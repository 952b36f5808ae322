"""The model: one block, stacked into encoders, decoders and encoder-decoders."""
