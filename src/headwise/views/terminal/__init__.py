"""The terminal's rendering of an explanation: plain data in, rich out."""
