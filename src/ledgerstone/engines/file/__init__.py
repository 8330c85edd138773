"""Journals in a directory: rows in memory, and one readable line for every change set."""
