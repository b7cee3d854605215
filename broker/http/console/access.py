"""Who may talk to the console at all, before anybody logs in, and the headers that bind a browser.

A page of another origin can make a browser send requests here, by a name that it has pointed at this address (DNS
rebinding) or by a form. So the Host header has to be one of ours, changes need a token that only our own page can read,
and what a browser itself says about where a request comes from is believed when it speaks against the request.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from http import HTTPStatus

from broker.http.messages import HttpRequest

OFF, LOOPBACK, ANYBODY = "off", "loopback", "any"
TOKEN_HEADER = "x-odradek-token"

SAFE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Problem(Exception):
    """What a page is told instead of an answer; `code` is for the page, the text for its reader."""

    def __init__(self, status: HTTPStatus, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text


class Doorkeeper:
    """Lets requests in by where they come from and what they call this server."""

    def __init__(self, access: str, hosts: Iterable[str]) -> None:
        """`access` is one of the three above, `hosts` names besides `localhost` and addresses."""
        self._access = access
        self._hosts = {"localhost", *(host.lower() for host in hosts)}

    def check(self, request: HttpRequest) -> None:
        """Raises `Problem` for a request that has to stay outside."""
        if self._access != ANYBODY and not is_loopback(request.peer):
            text = "The console answers this machine only; odradek.console.access=any opens it to others."
            raise Problem(HTTPStatus.FORBIDDEN, "remote", text)
        host = request.headers.get("host", "")
        if not self.knows(host):
            text = "The console does not go by this name; odradek.console.hosts lists those that it answers to."
            raise Problem(HTTPStatus.MISDIRECTED_REQUEST, "host", text)

    def knows(self, host: str) -> bool:
        """Whether a Host header is ours. An address cannot be rebound, so all of them are."""
        name = host_name(host)
        return name is not None and (name in self._hosts or _address(name) is not None)


def host_name(host: str) -> str | None:
    """The name in a Host header, in lower case, without port and brackets; None if it cannot be read."""
    name, port = host.strip().lower(), ""
    if name.startswith("["):
        name, bracket, port = name[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            return None
        port = port[1:]
    elif ":" in name:
        name, _, port = name.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return None
    return name.rstrip(".") or None


def is_loopback(peer: str) -> bool:
    """Whether an address is this machine's own, also as an IPv4 one within IPv6."""
    address = _address(peer)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address is not None and address.is_loopback


def check_post(request: HttpRequest, token: str) -> None:
    """Whether a request that changes something, or takes long, comes from our own page. Raises `Problem`."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    foreign = origin is not None and origin.partition("://")[2] != request.headers.get("host", "")
    given = request.headers.get(TOKEN_HEADER, "")
    if foreign or site != "same-origin" or not hmac.compare_digest(given.encode(), token.encode()):
        raise Problem(HTTPStatus.FORBIDDEN, "token", "The page is too old or not ours: load it again.")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
