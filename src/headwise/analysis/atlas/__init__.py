"""The head atlas: which relation each head reads, measured over annotated corpora with honest controls."""
