"""Ledgerstone timed against the least code that does the same durable work."""
