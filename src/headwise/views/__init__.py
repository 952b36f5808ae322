"""What a person sees: terminal, page, worksheet; drawn from plain arrays, never from a model."""
