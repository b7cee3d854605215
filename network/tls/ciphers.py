"""Names of cipher suites: Java's, which configurations hold, and OpenSSL's."""

from __future__ import annotations

from typing import Final

CIPHERS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")

_KEY_EXCHANGES: Final = {
    "RSA": "",
    "ECDHE_RSA": "ECDHE-RSA-",
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "DHE_RSA": "DHE-RSA-",
    "DHE_DSS": "DHE-DSS-",
}
_CIPHERS: Final = {
    "AES_128_GCM": "AES128-GCM",
    "AES_256_GCM": "AES256-GCM",
    "AES_128_CBC": "AES128",
    "AES_256_CBC": "AES256",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
}


def openssl_name(name: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2 or older; a name that is not Java's comes back as it is."""
    _, _, rest = name.partition("_")
    exchange, joined, suite = rest.partition("_WITH_")
    cipher, _, digest = suite.rpartition("_")
    if not joined or exchange not in _KEY_EXCHANGES or cipher not in _CIPHERS:
        return name
    tail = "" if cipher == "CHACHA20_POLY1305" else f"-{digest}"
    return f"{_KEY_EXCHANGES[exchange]}{_CIPHERS[cipher]}{tail}"
