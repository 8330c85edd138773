"""What Ledgerstone ships for those who test with it: conformance, promises, faults."""
