"""Ledgerstone: the durable state layer of AI agents."""
