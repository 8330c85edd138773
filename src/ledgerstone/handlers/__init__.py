"""Every command and query, once: coroutines over a transaction of tables.

What a handler promises is written at its command (`ledgerstone.commands`).
"""
