"""What is stored: frozen records, one file per noun."""
