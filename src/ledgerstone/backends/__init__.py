"""Places that keep sessions; each implements the port in ports/backend.py."""
