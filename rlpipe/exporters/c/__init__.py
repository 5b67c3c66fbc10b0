"""A program as C99: one file of code and weights that needs libm and nothing else."""
