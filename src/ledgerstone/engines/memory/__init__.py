"""Tables in dictionaries: nothing survives the process."""
