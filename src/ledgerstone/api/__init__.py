"""AsyncStore and its namespaces; api_sync is generated from it."""
