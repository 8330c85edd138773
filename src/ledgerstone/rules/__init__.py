"""The rules that every backend shares: pure functions over values, no I/O."""
