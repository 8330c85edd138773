"""Servers on this machine for tests: a real database, and a wire between it and a client."""
