"""The one place that says what this software is called on the wire, and which version it is."""

from __future__ import annotations

from typing import Final

SOFTWARE_NAME: Final = "odradek"
VERSION: Final = "0.1.0"
