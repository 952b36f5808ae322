"""What heads do: over one text, and over a corpus."""
