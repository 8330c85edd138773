"""Every command and query, once: coroutines over a transaction of tables."""
