"""Policies out of rlpipe: one verified artifact per target, loadable without rlpipe."""
