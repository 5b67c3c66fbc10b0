"""Readers of foreign pickles and torch files that run nothing and import nothing that a file names."""
