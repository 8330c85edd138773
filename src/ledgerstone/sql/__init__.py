"""The SQL family: named statements in .sql files, and the handlers that call them."""
