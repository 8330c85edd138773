# Generated from api/__init__.py by tools/make_sync.py: edit that, then run `make sync`.
"""Store and its namespaces; api_sync is generated from it."""
