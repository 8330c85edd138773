"""What callers hand in, checked and encoded: shared by async and blocking stores, no I/O."""
