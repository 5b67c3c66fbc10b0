"""Checkpoint directories: writing, reading, checking, describing them, and live objects to and from them."""
