"""The rules over plain tables: the memory backend, later the file backend, and the oracle."""
