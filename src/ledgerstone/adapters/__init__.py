"""Bridges to other libraries; each module needs the one it is named after, and imports it."""
