"""Tables in a SQLite file: schema and statements follow from the declarations."""
