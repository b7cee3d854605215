"""Passwords as Kafka's brokers keep them in ZooKeeper: encrypted by a key that is derived from a secret.

The text is `name:value` pairs with commas between them, and says all but the secret: how the key was derived, the
cipher and its initialization vector, and the length of the password in UTF-16 units, by which a wrong secret is
noticed. Needs `cryptography` (the extra `odradek[security]`).
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from broker.config.keys import ConfigError
from timer.chance import Chance

_DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
_KEY_FACTORIES: Final = {
    f"PBKDF2WithHmac{name}": name.lower() for name in ("SHA1", "SHA224", "SHA256", "SHA384", "SHA512")
}
_CIPHER: Final = re.compile(r"AES/(?:CBC/PKCS5Padding|(?:GCM|CTR)/NoPadding)")
_KEY_BITS: Final = (128, 192, 256)
_SALT_BYTES: Final = 256
_BLOCK_BYTES: Final = 16
_GCM_VECTOR_BYTES: Final = 12
_TAG_BITS: Final = 128


class PasswordError(ValueError):
    """A text that is no encoded password, or one of another secret."""


@dataclass(frozen=True, slots=True)
class PasswordEncoder:
    """By one secret. What it encodes is made as `key_factory`, `cipher`, `key_bits` and `iterations` say; what it
    decodes says itself how it was made."""

    secret: str = field(repr=False)
    chance: Chance = field(repr=False)
    key_factory: str = _DEFAULT_KEY_FACTORY
    cipher: str = "AES/CBC/PKCS5Padding"
    key_bits: int = 128
    iterations: int = 4096

    def __post_init__(self) -> None:
        """Raises `ConfigError` for algorithms that are not to be had."""
        for key, value, known in (
            ("keyfactory.algorithm", self.key_factory, self.key_factory in _KEY_FACTORIES),
            ("cipher.algorithm", self.cipher, _CIPHER.fullmatch(self.cipher)),
            ("key.length", self.key_bits, self.key_bits in _KEY_BITS),
        ):
            if not known:
                raise ConfigError(f"password.encoder.{key}: {value} cannot be had")

    def encode(self, password: str) -> str:
        """Another text each time. Raises `ConfigError` without `cryptography`."""
        is_gcm = "/GCM/" in self.cipher
        salt = self.chance.randbytes(_SALT_BYTES)
        vector = self.chance.randbytes(_GCM_VECTOR_BYTES if is_gcm else _BLOCK_BYTES)
        key = self._key(self.key_factory, salt, self.iterations, self.key_bits)
        encrypted = _encrypt(self.cipher, key, vector, password.encode())
        pairs = {
            "initializationVector": _to_base64(vector),
            "keyLength": self.key_bits,
            "salt": _to_base64(salt),
            "keyFactoryAlgorithm": self.key_factory,
            "cipherAlgorithm": self.cipher,
            **({"authenticationTagLength": _TAG_BITS} if is_gcm else {}),
            "iterations": self.iterations,
            "passwordLength": _length(password),
            "encryptedPassword": _to_base64(encrypted),
        }
        return ",".join(f"{name}:{value}" for name, value in pairs.items())

    def decode(self, text: str) -> str:
        """Raises `PasswordError`, without the text, and `ConfigError` without `cryptography`."""
        pairs = dict(each.partition(":")[::2] for each in text.split(","))
        try:
            key_factory, cipher = pairs["keyFactoryAlgorithm"], pairs["cipherAlgorithm"]
            if not _CIPHER.fullmatch(cipher) or key_factory not in _KEY_FACTORIES:
                raise PasswordError("it was encoded by an algorithm that cannot be had")
            salt, vector, encrypted = (
                base64.b64decode(pairs[name], validate=True)
                for name in ("salt", "initializationVector", "encryptedPassword")
            )
            if pairs.get("authenticationTagLength", str(_TAG_BITS)) != str(_TAG_BITS):
                raise PasswordError("the tag of its cipher is too short")
            key = self._key(key_factory, salt, int(pairs["iterations"]), int(pairs["keyLength"]))
            expected = int(pairs["passwordLength"])
        except KeyError as error:
            raise PasswordError(f"it has no {error.args[0]}") from None
        except PasswordError:
            raise
        except (ValueError, OverflowError):
            raise PasswordError("it is no encoded password") from None
        try:
            password = _decrypt(cipher, key, vector, encrypted).decode()
        except ValueError:
            raise PasswordError("it was encoded by another secret") from None
        if _length(password) != expected:
            raise PasswordError("it was encoded by another secret")
        return password

    def _key(self, key_factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
        if bits not in _KEY_BITS:
            raise PasswordError(f"a key of {bits} bits is none of AES")
        return hashlib.pbkdf2_hmac(_KEY_FACTORIES[key_factory], self.secret.encode(), salt, iterations, bits // 8)


def _length(password: str) -> int:
    return len(password.encode("utf-16-le")) // 2


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class _Library(NamedTuple):
    """What is taken from `cryptography`, which is loaded when there is a password."""

    ciphers: Any
    modes: Any
    padding: Any
    gcm: Any
    wrong_tag: type[Exception]


def _library() -> _Library:
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives import ciphers, padding
        from cryptography.hazmat.primitives.ciphers import modes
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ConfigError("password.encoder.secret needs cryptography (pip install 'odradek[security]')") from None
    return _Library(ciphers, modes, padding.PKCS7(8 * _BLOCK_BYTES), AESGCM, InvalidTag)


def _aes(library: _Library, cipher: str, key: bytes, vector: bytes) -> Any:
    mode = library.modes.CTR if "/CTR/" in cipher else library.modes.CBC
    return library.ciphers.Cipher(library.ciphers.algorithms.AES(key), mode(vector))


def _encrypt(cipher: str, key: bytes, vector: bytes, data: bytes) -> bytes:
    library = _library()
    if "/GCM/" in cipher:
        return bytes(library.gcm(key).encrypt(vector, data, None))
    if "/CBC/" in cipher:
        padder = library.padding.padder()
        data = padder.update(data) + padder.finalize()
    made = _aes(library, cipher, key, vector).encryptor()
    return bytes(made.update(data) + made.finalize())


def _decrypt(cipher: str, key: bytes, vector: bytes, data: bytes) -> bytes:
    """Raises ValueError for another key."""
    library = _library()
    if "/GCM/" in cipher:
        try:
            return bytes(library.gcm(key).decrypt(vector, data, None))
        except library.wrong_tag:
            raise ValueError("a wrong tag") from None
    made = _aes(library, cipher, key, vector).decryptor()
    plain = made.update(data) + made.finalize()
    if "/CBC/" in cipher:
        remover = library.padding.unpadder()
        plain = remover.update(plain) + remover.finalize()
    return bytes(plain)
