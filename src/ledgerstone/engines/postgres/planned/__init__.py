"""Commands decided from what this process knows, and carried out many in one call."""
