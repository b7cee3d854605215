"""Delegation tokens on a clock of our own: ends, who sees what, what is written, what is read."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from broker.security.tokens.manager import TokenManager, shown_to
from broker.security.tokens.token import Principal, Token, decode, encode, hmac_of, password_of
from network.protocol.errors import ApiError, ErrorCode
from network.sasl.scram import ScramClient, ScramServer
from network.sasl.scram_credential import SHA_512
from timer.clock import ManualClock

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "c:a'r,öl"))


class Znodes:
    """What ZooKeeper would hold."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.versions: dict[str, int] = {}
        self.before_write: list[Callable[[], object]] = []
        """What others do between a read and the write that rests on it, one each time."""

    def token_ids(self) -> list[str]:
        return list(self.stored)

    def token(self, token_id: str) -> tuple[bytes, int] | None:
        found = self.stored.get(token_id)
        return None if found is None else (found, self.versions[token_id])

    def create_token(self, token_id: str, data: bytes) -> None:
        self.stored[token_id], self.versions[token_id] = data, 0

    def replace_token(self, token_id: str, data: bytes, version: int) -> bool:
        self._others()
        if token_id not in self.stored or self.versions[token_id] != version:
            return False
        self.stored[token_id] = data
        self.versions[token_id] += 1
        return True

    def delete_token(self, token_id: str, version: int = -1) -> bool:
        self._others()
        if token_id in self.stored and version not in (-1, self.versions[token_id]):
            return False
        self.stored.pop(token_id, None)
        return True

    def _others(self) -> None:
        if self.before_write:
            self.before_write.pop()()


class Brokers:
    """Two brokers on one ZooKeeper."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.znodes = Znodes()
        ids = itertools.count()
        self.first, self.second = (
            TokenManager(
                self.znodes,
                "key",
                self.clock,
                lambda: f"token-{next(ids)}",
                lambda: b"salt",
                max_lifetime_ms=10_000,
                default_period_ms=4_000,
            )
            for _ in range(2)
        )


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def logs_in(manager: TokenManager, token: Token, mac: bytes) -> str | None:
    """The principal that a login with the token has."""
    found = manager.login(SHA_512.name, token.token_id)
    if found is None:
        return None
    server = ScramServer(SHA_512, lambda user: None, lambda token_id: found, lambda: "s")
    client = ScramClient(SHA_512, token.token_id, password_of(mac), lambda: "c", token_auth=True)
    message = client.evaluate(b"")
    while message is not None:
        message = client.evaluate(server.evaluate(message))
    return server.authorization_id


def test_a_token_of_one_broker_is_good_on_another(brokers: Brokers) -> None:
    token, mac = brokers.first.create(CAROL, ALICE, (BOB,), -1)
    assert logs_in(brokers.first, token, mac) == CAROL.name
    assert brokers.second.login(SHA_512.name, token.token_id) is None
    brokers.second.on_change(token.token_id.encode())
    assert logs_in(brokers.second, token, mac) == CAROL.name
    later = TokenManager(
        brokers.znodes, "key", brokers.clock, str, lambda: b"s", max_lifetime_ms=1, default_period_ms=1
    )
    later.load()
    assert later.tokens(lambda token: True) == [(token, mac)]
    brokers.second.expire(CAROL, mac, -1)
    brokers.first.on_change(token.token_id.encode())
    assert brokers.first.login(SHA_512.name, token.token_id) is None


def test_nothing_outlives_its_last_day(brokers: Brokers) -> None:
    manager, clock = brokers.first, brokers.clock
    token, mac = manager.create(ALICE, ALICE, (), 6_000)
    issued = clock.wall_ms()
    assert (token.expires_ms, token.max_ms) == (issued + 4_000, issued + 6_000)
    clock.advance(4_000)
    assert manager.renew(ALICE, mac, -1) == issued + 6_000
    clock.advance(2_000)
    assert logs_in(manager, token, mac) == "alice"
    clock.advance(1)
    assert manager.login(SHA_512.name, token.token_id) is None
    with pytest.raises(ApiError) as caught:
        manager.renew(ALICE, mac, 1)
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED
    manager.remove_expired()
    assert brokers.znodes.stored == {}
    with pytest.raises(ApiError) as caught:
        manager.expire(ALICE, mac, -1)
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    longest, _ = manager.create(ALICE, ALICE, (), 10**12)
    assert longest.max_ms == clock.wall_ms() + 10_000


def test_a_token_that_is_gone_when_all_are_read_again_is_good_no_more(brokers: Brokers) -> None:
    gone, mac = brokers.first.create(ALICE, ALICE, (), -1)
    kept, _ = brokers.first.create(BOB, BOB, (), -1)
    brokers.second.load()
    brokers.first.expire(ALICE, mac, -1)
    brokers.second.load()
    assert brokers.second.login(SHA_512.name, gone.token_id) is None
    assert brokers.second.login(SHA_512.name, kept.token_id) is not None


class NeverCompared(bytes):
    """What tells by `==` how much of it was right."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared in a time that tells how much is equal")

    __hash__ = bytes.__hash__


@pytest.mark.parametrize("is_told", [False, True])
def test_a_token_that_was_deleted_elsewhere_is_not_made_again(brokers: Brokers, is_told: bool) -> None:
    """Before the notification has come, and between the look at the znode and the write."""
    token, mac = brokers.first.create(ALICE, ALICE, (), -1)
    brokers.second.on_change(token.token_id.encode())

    def delete() -> None:
        brokers.second.expire(ALICE, mac, -1)

    if is_told:
        brokers.znodes.before_write.append(delete)
    else:
        delete()
    with pytest.raises(ApiError) as refused:
        brokers.first.renew(ALICE, mac, 5_000)
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert brokers.znodes.token_ids() == []
    assert brokers.first.login(SHA_512.name, token.token_id) is None, "who has seen that it is gone knows it"


def test_a_token_is_moved_from_where_others_have_moved_it(brokers: Brokers) -> None:
    token, mac = brokers.first.create(ALICE, ALICE, (), -1)
    brokers.second.on_change(token.token_id.encode())
    # The second broker ends it soon; the first has not heard of it when that end has come.
    brokers.second.expire(ALICE, mac, 1_000)
    brokers.clock.advance(1_001)
    with pytest.raises(ApiError) as refused:
        brokers.first.renew(ALICE, mac, 5_000)
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED
    other, mac = brokers.first.create(ALICE, ALICE, (), -1)
    brokers.second.on_change(other.token_id.encode())
    brokers.znodes.before_write.append(lambda: brokers.second.renew(ALICE, mac, 9_000))
    expires_ms = brokers.first.expire(ALICE, mac, 2_000)
    assert decode(brokers.znodes.stored[other.token_id]).expires_ms == expires_ms == brokers.clock.wall_ms() + 2_000


@pytest.mark.parametrize("is_late", [False, True])
def test_a_token_that_was_renewed_elsewhere_is_not_removed(brokers: Brokers, is_late: bool) -> None:
    """The controller's broker goes by what it knows, then by what is there, then by what it has looked at."""
    token, _ = brokers.first.create(ALICE, ALICE, (), -1)
    brokers.clock.advance(4_001)

    def renew() -> None:
        """By a broker whose clock is a little behind."""
        renewed = token.until(token.expires_ms + 3_000)
        assert brokers.znodes.replace_token(token.token_id, encode(renewed), 0)

    if is_late:
        brokers.znodes.before_write.append(renew)
    else:
        renew()
    brokers.first.remove_expired()
    assert brokers.znodes.token_ids() == [token.token_id]
    brokers.clock.advance(3_000)
    brokers.first.remove_expired()
    assert brokers.znodes.token_ids() == []
    assert brokers.first.tokens(lambda token: True) == []


def test_hmacs_are_compared_in_constant_time(brokers: Brokers) -> None:
    _, mac = brokers.first.create(ALICE, ALICE, (), -1)
    assert brokers.first.renew(ALICE, NeverCompared(mac), -1) > 0
    with pytest.raises(ApiError) as caught:
        brokers.first.expire(ALICE, NeverCompared(mac[:-1] + b"x"), -1)
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_who_is_shown_what() -> None:
    token = Token("id", ALICE, ALICE, (BOB,), 0, 0, 0)

    def shown(
        caller: Principal, owners: list[Principal] | None, *, sees_token: bool = False, sees_owner: bool = False
    ) -> bool:
        return shown_to(caller, owners, lambda _: sees_token, lambda owner: sees_owner and owner == ALICE)(token)

    assert shown(ALICE, None)
    assert shown(BOB, [ALICE])
    assert not shown(CAROL, None)
    assert shown(CAROL, None, sees_token=True)
    assert shown(CAROL, [BOB], sees_owner=True)
    assert not shown(ALICE, [CAROL], sees_token=True, sees_owner=True)


def test_znodes_of_every_version() -> None:
    token = Token("id", ALICE, CAROL, (BOB, CAROL), 1, 3, 2)
    assert decode(encode(token)) == token
    old = b'{"version":1,"owner":"User%3Aalice","renewers":[],"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2,'
    old += b'"tokenId":"id"}'
    assert decode(old) == Token("id", ALICE, ALICE, (), 1, 3, 2)
    for bad in (b"", b"[]", b"{}", old.replace(b":1,", b":9,", 1), old.replace(b"%3A", b"")):
        with pytest.raises(ValueError):
            decode(bad)


def test_no_secret_is_shown() -> None:
    mac = hmac_of("id", b"key")
    assert password_of(mac) not in repr(Token("id", ALICE, CAROL, (), 1, 3, 2))
    assert str(CAROL) == "User:c:a'r,öl"
    assert Principal.parse(str(CAROL)) == CAROL
