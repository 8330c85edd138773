"""The adapters: the same agent loop on a framework's own persistence and on ours."""
