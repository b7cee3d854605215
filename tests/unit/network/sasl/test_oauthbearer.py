"""OAUTHBEARER with unsecured tokens: both sides, the form of messages, times, scopes, and what is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from network.sasl.mechanism import SaslAuthenticationError, SaslError
from network.sasl.oauthbearer import InvalidTokenError, OAuthBearerClient, OAuthBearerServer, OAuthToken
from network.sasl.unsecured_token import UnsecuredValidator, make_unsecured

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000


def token(claims: Any, header: Any = None, signature: str = "") -> str:
    parts = (json.dumps(each).encode() for each in ({"alg": "none"} if header is None else header, claims))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "." + signature


def server(options: dict[str, str] | None = None) -> OAuthBearerServer:
    validator = UnsecuredValidator(options or {})
    return OAuthBearerServer(lambda text: validator.validate(text, NOW_MS))


GOOD = {"sub": "alice", "exp": NOW + 60}


def test_a_token_of_our_own() -> None:
    text, extensions = make_unsecured(
        {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginExtension_traceId": "12 3"}, NOW_MS
    )
    client, peer = OAuthBearerClient(text, extensions), server()
    first = client.evaluate(b"")
    assert first is not None
    assert client.evaluate(peer.evaluate(first)) is None
    assert client.complete
    assert (peer.complete, peer.authorization_id, peer.expires_ms) == (True, "alice", NOW_MS + 3_600_000)


@pytest.mark.parametrize(
    "text",
    [
        token({"exp": NOW + 60}),
        token({"sub": "", "exp": NOW + 60}),
        token({"sub": 5, "exp": NOW + 60}),
        token({"sub": "alice"}),
        token({"sub": "alice", "exp": "soon"}),
        token({"sub": "alice", "exp": float("inf")}),
        token({"sub": "alice", "exp": True}),
        token({"sub": "alice", "exp": NOW}),
        token({"sub": "alice", "exp": NOW - 1}),
        token({"sub": "alice", "exp": NOW + 60, "iat": NOW + 1}),
        token({"sub": "alice", "exp": NOW + 60, "scope": 5}),
        token(["sub"]),
        token(GOOD, {"alg": "HS256"}),
        token(GOOD, {}),
        token(GOOD, signature="c2ln"),
        token(GOOD)[:-1],
        token(GOOD) + ".",
        "!!.!!.",
        "a",
    ],
)
def test_what_is_no_token_is_refused_in_two_steps(text: str) -> None:
    validator = UnsecuredValidator({})
    with pytest.raises(InvalidTokenError) as caught:
        validator.validate(text, NOW_MS)
    assert "alice" not in str(caught.value)
    if "!" in text:
        return  # no such message can be sent
    client, peer = OAuthBearerClient(text), server()
    first = client.evaluate(b"")
    assert first is not None
    said = peer.evaluate(first)
    assert said == b'{"status":"invalid_token"}'
    last = client.evaluate(said)
    assert last == b"\x01"
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        peer.evaluate(last)
    assert not peer.complete
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        client.evaluate(b"")


def test_a_token_that_was_not_taken_is_the_last_of_its_exchange() -> None:
    """Else tokens could be tried one after the other without the delay that follows a failure."""
    peer = server()
    assert peer.evaluate(f"n,,\x01auth=Bearer {token({**GOOD, 'exp': NOW})}\x01\x01".encode())
    with pytest.raises(SaslError):
        peer.evaluate(f"n,,\x01auth=Bearer {token(GOOD)}\x01\x01".encode())
    assert not peer.complete


def test_scope_and_clock_skew() -> None:
    options = {"unsecuredValidatorRequiredScope": "read write", "unsecuredValidatorAllowableClockSkewMs": "5000"}
    validator = UnsecuredValidator(options)
    for scope in ("write read more", ["read", "write"]):
        found = validator.validate(token({**GOOD, "exp": NOW - 4, "scope": scope}), NOW_MS)
        assert found.principal == "alice"
    with pytest.raises(InvalidTokenError) as caught:
        validator.validate(token({**GOOD, "scope": "read"}), NOW_MS)
    assert (caught.value.status, caught.value.scope) == ("insufficient_scope", "read write")
    with pytest.raises(InvalidTokenError):
        validator.validate(token({**GOOD, "exp": NOW - 5, "scope": "read write"}), NOW_MS)
    with pytest.raises(ValueError, match="negative"):
        UnsecuredValidator({"unsecuredValidatorAllowableClockSkewMs": "-1"})


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer abc\x01k\x80=v\x01\x01",
    ],
)
def test_malformed_messages(message: bytes) -> None:
    with pytest.raises(SaslError):
        server().evaluate(message)


def test_the_authorization_id_is_the_tokens_principal() -> None:
    for authzid, taken in (("alice", True), ("bob", False)):
        peer = server()
        message = f"n,a={authzid},\x01auth=Bearer {token(GOOD)}\x01\x01".encode()
        if taken:
            assert peer.evaluate(message) == b""
        else:
            with pytest.raises(SaslAuthenticationError, match="different from the token's principal name"):
                peer.evaluate(message)


def test_extensions_may_be_refused() -> None:
    peer = OAuthBearerServer(lambda text: OAuthToken("alice", 1), lambda token, found: dict.fromkeys(found, "unknown"))
    with pytest.raises(SaslAuthenticationError, match="1 extensions are invalid! They are: trace: unknown"):
        peer.evaluate(b"n,,\x01auth=Bearer x\x01trace=1\x01\x01")
    for extensions in ({"auth": "x"}, {"no-name": "x"}, {"name": "\x01"}, {"name": ""}):
        with pytest.raises(ValueError, match="Extension"):
            OAuthBearerClient("x", extensions)


def test_a_validator_that_fails_tells_nothing() -> None:
    def fail(text: str) -> OAuthToken:
        raise RuntimeError(text)

    with pytest.raises(SaslError) as caught:
        OAuthBearerServer(fail).evaluate(b"n,,\x01auth=Bearer sesame\x01\x01")
    assert "sesame" not in str(caught.value)
    assert "sesame" not in repr(OAuthToken("alice", 1, claims={"x": "sesame"}))
