"""What a token endpoint is asked, which answers are tried again, and that none holds a login or tells a secret."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from network.oauth import login
from network.oauth.access_token import AccessToken, NoTokenNow, TokenError
from network.oauth.kept_token import KeptToken
from network.oauth.keys import HANDLER, URL
from network.sasl.clients import client_mechanism
from network.sasl.jaas import JaasError
from network.sasl.mechanism import SaslError
from tests.support.certificates import Authority
from tests.support.cluster import CLOCK
from tests.support.token_server import TokenServer, reply

SECRET = "s3cr+t:&"
CREDENTIALS = {"clientId": "me", "clientSecret": SECRET}
QUICK = {"sasl.login.retry.backoff.ms": "1"}


@pytest.fixture
def server() -> Iterator[TokenServer]:
    made = TokenServer({"me": SECRET})
    yield made
    made.close()


def kept(url: str, options: dict[str, str] | None = None, /, **keys: str) -> KeptToken:
    values = {HANDLER: login.ENDPOINT_HANDLERS[1], URL: url, **QUICK, **keys}
    made = login.kept_token(values.get, CREDENTIALS | (options or {}), CLOCK)
    assert made is not None
    return made


def test_what_is_asked_and_sent(server: TokenServer) -> None:
    options = {"scope": "read & write", "extension_tenant": "a"}
    token = kept(server.url, options).current()
    assert server.asked == [("me", {"grant_type": "client_credentials", "scope": "read & write"})]
    claims = json.loads(base64.urlsafe_b64decode(token.text.split(".")[1] + "=="))
    assert (token.expires_ms, token.issued_ms) == (claims["exp"] * 1000, claims["iat"] * 1000)
    values = {HANDLER: login.ENDPOINT_HANDLERS[0], URL: server.url}
    first = client_mechanism("OAUTHBEARER", CREDENTIALS | options, CLOCK, values.get)("broker").evaluate(b"")
    assert first is not None
    assert first.startswith(b"n,,\x01auth=Bearer ey")
    assert first.endswith(b"\x01tenant=a\x01\x01")
    assert token.text not in repr(token)


def test_an_id_and_a_secret_may_be_written_as_in_a_form(server: TokenServer) -> None:
    server.secrets = {"me": "s3cr%2Bt%3A%26"}
    assert kept(server.url, None, **{"sasl.oauthbearer.header.urlencode": "true"}).current()


def test_what_may_pass_is_tried_again(server: TokenServer) -> None:
    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True

    def no_http(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"SSH-2.0\r\n")
        handler.close_connection = True

    server.scripted = [
        lambda handler: reply(handler, 503, b""),
        lambda handler: reply(handler, 429, {}),
        hang_up,
        no_http,
    ]
    assert kept(server.url).current()
    assert len(server.asked) == 5


@pytest.mark.parametrize(
    ("status", "content", "why"),
    [
        (401, {"error": "invalid_client", "error_description": SECRET}, r"answers 401 \(invalid_client\)$"),
        (400, {"error": SECRET}, "answers 400$"),
        (302, b"", "answers 302$"),
        (200, {"token": "x"}, "gives no access_token"),
        (200, b"[" * 5000, "gives no access_token"),
        (200, {"access_token": f"opaque-{SECRET}"}, "no JSON web token"),
        (200, {"access_token": "a.e30.c"}, "no exp claim"),
        (200, {"access_token": "x" * 70_000}, "more than 65536"),
    ],
)
def test_what_cannot_pass_is_told_at_once(server: TokenServer, status: int, content: Any, why: str) -> None:
    server.scripted = [lambda handler: reply(handler, status, content)] * 2
    token = kept(server.url)
    with pytest.raises(TokenError, match=why) as told:
        token.current()
    assert len(server.asked) == 1
    assert SECRET not in str(told.value)


def test_no_answer_holds_a_login(server: TokenServer, caplog: pytest.LogCaptureFixture) -> None:
    """One that never ends, and one that never begins."""

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" " * 1000)
        except OSError:
            handler.close_connection = True

    def silent(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(1)
        handler.close_connection = True

    for script, limit, why in ((drip, "60000", "more than 131072 bytes"), (silent, "300", "timed out")):
        server.scripted = [script]
        once = {"sasl.login.retry.backoff.max.ms": "0", "sasl.login.read.timeout.ms": limit}
        with pytest.raises(NoTokenNow, match=why):
            kept(server.url, None, **once).current()
    assert "is not encrypted" in caplog.text
    assert SECRET not in caplog.text


def test_over_tls(tmp_path: Path) -> None:
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue().pem_file(tmp_path / "server.pem"))
    server = TokenServer({"me": SECRET}, context)
    try:
        trusted = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.pem_file(tmp_path / "ca.pem")),
        }
        assert kept(server.url, trusted).current()
        other = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": Authority("Other").pem}
        for options in (other, {}):
            with pytest.raises(TokenError, match="is not trusted"):
                kept(server.url, options).current()
        with pytest.raises(JaasError, match=r"ssl.truststore.location: /nowhere"):
            kept(server.url, {"ssl.truststore.location": "/nowhere"})
    finally:
        server.close()
    assert len(server.asked) == 1


def test_a_file_is_read_again(server: TokenServer, tmp_path: Path) -> None:
    file = tmp_path / "a token"
    token = kept(file.as_uri())
    with pytest.raises(NoTokenNow, match="a token cannot be read: No such file"):
        token.current()
    file.write_text(server.token("me", exp=1) + "\n")
    with pytest.raises(NoTokenNow, match="has expired already"):
        token.current()
    file.write_text(server.token("me") + "\n")
    assert token.current().text + "\n" == file.read_text()


class Own:
    """A login callback handler of a user's."""

    answers: list[Any] = []

    def configure(self, mechanism: str, options: dict[str, str]) -> None:
        assert (mechanism, options) == ("OAUTHBEARER", CREDENTIALS)

    def token(self) -> Any:
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def test_a_class_of_ones_own(server: TokenServer) -> None:
    values = {HANDLER: f"{__name__}:Own"}
    made = login.kept_token(values.get, CREDENTIALS, CLOCK)
    assert made is not None
    token = AccessToken("opaque", CLOCK.wall_ms() + 60_000)
    Own.answers = [KeyError(SECRET), 3, server.token("me", sub=""), token]
    for why in ("gives no token: KeyError$", "but a int$", "no sub claim"):
        with pytest.raises((NoTokenNow, TokenError), match=why) as told:
            made.current()
        assert SECRET not in str(told.value)
    assert made.current() is token
    Own.answers = [3]
    make = client_mechanism("OAUTHBEARER", CREDENTIALS, CLOCK, values.get)
    with pytest.raises(SaslError, match="but a int"):
        make("broker")


@pytest.mark.parametrize(
    ("keys", "options", "why"),
    [
        ({HANDLER: ""}, {}, "has no effect without sasl.login.callback.handler.class="),
        ({URL: ""}, {}, "is not set"),
        ({URL: f"ftp://h/x?{SECRET}"}, {}, "no http:, https: or file: URL: ftp://h/x$"),
        ({URL: f"http://[h/x?{SECRET}"}, {}, "cannot be read"),
        ({URL: "http://h:99x/"}, {}, "cannot be read"),
        ({URL: f"http://me:{SECRET}@h/x"}, {}, "must not hold"),
        ({}, {"clientSecret": ""}, "no option clientSecret"),
        ({}, {"extension_auth": SECRET}, "Extension name auth is invalid"),
        ({HANDLER: "com.example.Handler"}, {}, "is a Java class"),
        ({"sasl.login.refresh.window.factor": "0.3"}, {}, "not between 0.5 and 1.0"),
        ({"sasl.login.refresh.buffer.seconds": "x"}, {}, "x is no number"),
        ({"sasl.login.read.timeout.ms": "-1"}, {}, "no time in milliseconds"),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(keys: dict[str, str], options: dict[str, str], why: str) -> None:
    with pytest.raises(JaasError, match=why) as told:
        kept("http://127.0.0.1:1/", options, **keys)
    assert SECRET not in str(told.value)
