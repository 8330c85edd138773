"""The same bench on PostgreSQL: one server, one database per contender."""
