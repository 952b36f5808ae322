"""Writing: the next token again and again, by greedy choice, sampling or beams; and summaries made of it."""
