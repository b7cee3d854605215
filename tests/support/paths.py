"""Where tests find files that are not code."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
"""The root of the repository."""

GOLDEN = ROOT / "tests" / "golden"
"""Captured data that is part of the repository."""

SHARED_GOLDEN = ROOT.parent / "shared" / "golden"
"""The complete captures, which lie beside the repository where they are available."""


def shared_golden() -> Path:
    """`SHARED_GOLDEN`, or skip the test where it is absent."""
    if not SHARED_GOLDEN.is_dir():
        pytest.skip("the complete golden captures are not beside the repository")
    return SHARED_GOLDEN
