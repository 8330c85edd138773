"""Places that keep tables: each loads rows and applies what a handler wrote."""
