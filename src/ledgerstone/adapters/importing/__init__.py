"""Readers of what other libraries stored: read-only on the source, and safe to run again."""
