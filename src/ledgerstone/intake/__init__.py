"""What callers hand in, checked and encoded: shared by both faces, no I/O."""
