"""Training: a recipe and rows of text become a checkpoint that everything else opens."""
