"""The rules written a second time, over plain tables: what the engines are judged by."""
