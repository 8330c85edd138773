"""Scripts for fresh interpreters: import, open a store, read the last 50 messages.

Each is run by itself with a path and a session, imports nothing of this package, and prints the
milliseconds of the import, of opening and reading, and how many messages it got.
"""
