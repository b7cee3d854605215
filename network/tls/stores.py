"""Key stores and trust stores: PEM (in a file or in the configuration itself), PKCS12 and JKS.

A file that is said to be JKS may be PKCS12 and the other way round: Java reads either under both names, and its keytool
writes PKCS12 unless told otherwise. PKCS12 is read by `cryptography` (the extra `odradek[security]`).
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field

from network.small_file import read_small
from network.tls.jks import MAGIC, JksError, JksStore

_BLOCK = re.compile(r"-+BEGIN\s+([A-Z0-9 ]+?)-+([A-Za-z0-9+/=\s]+)-+END\s+\1-+")
_LINE = 64
TYPES = ("JKS", "PKCS12", "PEM")
MAX_BYTES = 4 << 20
"""Of one store: more than two thousand certificates."""


class TlsConfigError(ValueError):
    """TLS that is configured so that it cannot be had; the text names the key."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key in PEM (encrypted if it was so), and its certificate with those that signed it, in DER."""

    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]

    @property
    def pem(self) -> bytes:
        return self.key + b"".join(_pem("CERTIFICATE", each) for each in self.chain)


def read_key_store(location: str, kind: str, password: str | None, key_password: str | None) -> KeyStore:
    """Raises `TlsConfigError`."""
    data = _read("ssl.keystore.location", location)
    if kind == "PEM":
        return pem_key_store(_text("ssl.keystore.location", data), None)
    try:
        if data[:4] == MAGIC:
            store = JksStore(data, password)
            key, chain = store.private_key(key_password if key_password is not None else password), store.chain
        else:
            key, chain, _ = _pkcs12(data, password)
    except ValueError as error:
        raise TlsConfigError(f"ssl.keystore.location: {location} cannot be read: {error}") from None
    if key is None:
        raise TlsConfigError(f"ssl.keystore.location: {location} holds no private key")
    return KeyStore(_pem("PRIVATE KEY", key), tuple(chain))


def pem_key_store(key_text: str, chain_text: str | None) -> KeyStore:
    """Of texts in PEM; without `chain_text` the certificates stand beside the key. Raises `TlsConfigError`."""
    keys = [(label, der) for label, der in _blocks(key_text) if label.endswith("PRIVATE KEY")]
    chain = [der for label, der in _blocks(chain_text or key_text) if label == "CERTIFICATE"]
    if len(keys) != 1:
        raise TlsConfigError(f"ssl.keystore.key: {len(keys)} private keys in PEM, there must be one")
    if not chain:
        raise TlsConfigError("ssl.keystore.certificate.chain: no certificate in PEM")
    return KeyStore(_pem(*keys[0]), tuple(chain))


def read_trust_store(location: str, kind: str, password: str | None) -> tuple[bytes, ...]:
    """The trusted certificates in DER. Raises `TlsConfigError`."""
    data = _read("ssl.truststore.location", location)
    if kind == "PEM":
        return pem_trust_store(_text("ssl.truststore.location", data))
    try:
        trusted = JksStore(data, password).trusted if data[:4] == MAGIC else _pkcs12(data, password)[2]
    except ValueError as error:
        raise TlsConfigError(f"ssl.truststore.location: {location} cannot be read: {error}") from None
    if not trusted:
        raise TlsConfigError(f"ssl.truststore.location: {location} holds no trusted certificate")
    return tuple(trusted)


def pem_trust_store(text: str) -> tuple[bytes, ...]:
    """The certificates of a text in PEM. Raises `TlsConfigError`."""
    trusted = tuple(der for label, der in _blocks(text) if label == "CERTIFICATE")
    if not trusted:
        raise TlsConfigError("ssl.truststore.certificates: no certificate in PEM")
    return trusted


def _read(key: str, location: str) -> bytes:
    try:
        return read_small(location, MAX_BYTES)
    except OSError as error:
        raise TlsConfigError(f"{key}: {location} cannot be read: {error.strerror}") from None


def _text(key: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise TlsConfigError(f"{key}: no text in PEM") from None


def _blocks(text: str) -> list[tuple[str, bytes]]:
    """What stands between BEGIN and END; on one line too, as properties files may hold it."""
    try:
        return [(label, base64.b64decode("".join(body.split()))) for label, body in _BLOCK.findall(text)]
    except ValueError:
        raise TlsConfigError("PEM is not well-formed") from None


def _pem(label: str, der: bytes) -> bytes:
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()


def _pkcs12(data: bytes, password: str | None) -> tuple[bytes | None, list[bytes], list[bytes]]:
    """Key in PKCS 8, its chain, and the certificates that belong to no key."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise JksError("a PKCS12 key store needs cryptography (pip install 'odradek[security]')") from None
    store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    others = [each.certificate.public_bytes(Encoding.DER) for each in store.additional_certs]
    if store.key is None:
        own = [] if store.cert is None else [store.cert.certificate.public_bytes(Encoding.DER)]
        return None, [], own + others
    key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    chain = [] if store.cert is None else [store.cert.certificate.public_bytes(Encoding.DER)]
    return key, chain + others, others
