"""Connections of the two drivers, and what is theirs alone."""
