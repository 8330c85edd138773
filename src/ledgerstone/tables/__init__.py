"""What is stored: every table declared once, and the transaction that handlers see."""
