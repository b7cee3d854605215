"""PLAIN: what is let in, and in which words the rest is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.sasl.mechanism import SaslAuthenticationError
from network.sasl.plain import JaasPasswords, PlainClient, PlainServer

USERS = {"user_alice": "secret", "user_o'b,r\"ien=ü": 'p"ä,ss', "username": "admin", "password": "x"}


def serve(message: bytes) -> str:
    """The principal, or the refusal."""
    server = PlainServer(JaasPasswords(USERS))
    try:
        assert server.evaluate(message) == b""
    except SaslAuthenticationError as error:
        assert not server.complete
        return str(error)
    assert server.complete
    return server.authorization_id


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ('\0o\'b,r"ien=ü\0p"ä,ss'.encode(), "o'b,r\"ien=ü"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0name\0x", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0\xff", "Authentication failed: Invalid username or password"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"root\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0secret\0a\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_messages(message: bytes, said: str) -> None:
    assert serve(message) == said


def test_a_check_that_fails_lets_nobody_in_and_tells_nothing() -> None:
    def check(user: str, password: str) -> bool:
        raise RuntimeError(f"no connection for {user} with {password}")

    with pytest.raises(SaslAuthenticationError) as caught:
        PlainServer(check).evaluate(b"\0alice\0secret")
    assert str(caught.value) == "Authentication failed: credentials for user could not be verified"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)


@given(user=_TEXT, password=_TEXT)
def test_client_and_server_agree_on_every_name(user: str, password: str) -> None:
    client, server = PlainClient(user, password), PlainServer(JaasPasswords({f"user_{user}": password}))
    message = client.evaluate(b"")
    assert message is not None
    assert client.evaluate(server.evaluate(message)) is None
    assert client.complete
    assert server.authorization_id == user
