"""Algorithms: the root components that hold policies."""
