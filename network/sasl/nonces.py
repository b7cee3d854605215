"""The nonces of SCRAM: the one place where the mechanisms' chance comes from."""

from __future__ import annotations

import secrets

_BYTES = 18


def new_nonce() -> str:
    """Letters, digits, `-` and `_`, that nobody can foresee."""
    return secrets.token_urlsafe(_BYTES)


def new_salt() -> bytes:
    """For a password that is stored."""
    return secrets.token_bytes(_BYTES)
