"""What is read out of a certificate: its subject as Java writes it, when it ends, and its alternative names.

The walk over DER is our own: `ssl` tells these things only of certificates that a peer has shown and in names of its
own, and TLS with PEM files shall need no other library. It is given certificates that OpenSSL has accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_UTC_TIME: Final = 0x17
_ALTERNATIVE_NAMES: Final = bytes((0x55, 0x1D, 0x11))

# Tags of text. Java reads the bytes of all of them as UTF-8.
_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E))
# Attributes that RFC 2253 has a short name for; the others are written as numbers.
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class CertificateError(ValueError):
    """Bytes that are no certificate."""


class Element(NamedTuple):
    """A tag, what stands in it, and the bytes of both."""

    tag: int
    content: bytes
    whole: bytes


def elements(data: bytes) -> Iterator[Element]:
    """The DER elements that stand one after the other in `data`. Raises `CertificateError`."""
    at = 0
    while at < len(data):
        start = at
        try:
            tag, length = data[at], data[at + 1]
        except IndexError:
            raise CertificateError("DER ends within an element") from None
        at += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + length > len(data):
            raise CertificateError("DER ends within an element")
        yield Element(tag, data[at : at + length], data[start : at + length])
        at += length


def _inside(der: bytes) -> list[Element]:
    found = list(elements(der))
    if len(found) != 1 or found[0].tag != _SEQUENCE:
        raise CertificateError("no DER sequence")
    return list(elements(found[0].content))


def _fields(certificate: bytes) -> list[Element]:
    """Serial number, algorithm, issuer, validity, subject, key, extensions."""
    try:
        fields = list(elements(_inside(certificate)[0].content))
        if fields[0].tag == _VERSION:
            fields = fields[1:]
        if len(fields) < 6:
            raise CertificateError("too few fields")
        return fields
    except IndexError:
        raise CertificateError("no certificate") from None


def subject(certificate: bytes) -> bytes:
    """The DER of the subject's name."""
    return _fields(certificate)[4].whole


def not_after(certificate: bytes) -> datetime:
    """When the certificate ends, in UTC."""
    end = list(elements(_fields(certificate)[3].content))[1]
    text = end.content.decode("ascii")
    if end.tag == _UTC_TIME:  # two digits of a year: 50 and above are of the last century
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """The DER of each alternative name; empty without any."""
    for field in _fields(certificate)[6:]:
        if field.tag != _EXTENSIONS:
            continue
        for extension in _inside(field.content):
            parts = list(elements(extension.content))
            if parts[0].content == _ALTERNATIVE_NAMES:
                return frozenset(name.whole for name in _inside(parts[-1].content))
    return frozenset()


def distinguished_name(name: bytes) -> str:
    """A name's DER in the form of Java's `X500Principal.getName()`: RFC 2253, the last part first."""
    parts = []
    for part in _inside(name):
        attributes = [list(elements(each.content)) for each in elements(part.content)]
        parts.append("+".join(_attribute(_dotted(kind.content), value) for kind, value in attributes))
    return ",".join(reversed(parts))


def _attribute(kind: str, value: Element) -> str:
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or kind}=#{value.whole.hex()}"
    text = value.content.decode("utf-8", "replace")
    escaped = "".join("\\" + each if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    blanks = len(escaped) - len(escaped.lstrip(" \r"))
    if blanks == len(escaped):
        return f"{keyword}=" + "".join("\\" + each for each in escaped)
    core = escaped.strip(" \r")
    trailing = escaped[blanks + len(core) :]
    led, trailed = ("".join("\\" + each for each in blank) for blank in (escaped[:blanks], trailing))
    return f"{keyword}={led}{core}{trailed}"


def _dotted(content: bytes) -> str:
    """An object identifier with its dots."""
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(each) for each in (first, numbers[0] - 40 * first, *numbers[1:]))
