"""Tables in a PostgreSQL schema: schema and statements follow from the declarations."""
