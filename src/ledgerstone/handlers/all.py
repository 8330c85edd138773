"""Every handler there is: importing this module imports all of them."""

from __future__ import annotations

from ledgerstone.handlers.registry import HANDLERS, import_all

__all__ = ["HANDLERS"]

import_all()
