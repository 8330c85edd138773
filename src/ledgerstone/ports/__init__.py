"""What a backend must be: a narrow port of writes and reads."""
