"""The conformance suite on every backend of this repository; conftest.py has the backends."""

from ledgerstone.testing.conformance import *  # noqa: F403
