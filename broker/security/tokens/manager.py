"""The delegation tokens of a cluster as one broker knows and changes them.

Any broker writes; every broker hears of a change by a notification and reads the token again. Logins ask `login`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from broker.security.tokens.token import Principal, Token, decode, encode, hmac_of, password_of
from network.protocol.errors import ApiError, ErrorCode
from network.sasl.mechanism import same_secret
from network.sasl.scram import TokenCredential
from network.sasl.scram_credential import MECHANISMS, MIN_ITERATIONS, ScramCredential, credential_of, salted_password

if TYPE_CHECKING:
    from timer.clock import Clock

logger = logging.getLogger(__name__)

_ATTEMPTS = 20
"""At writing over what others write at the same time."""


class TokenZnodes(Protocol):
    """What is needed of ZooKeeper."""

    def token_ids(self) -> list[str]: ...

    def token(self, token_id: str) -> tuple[bytes, int] | None: ...

    def create_token(self, token_id: str, data: bytes) -> None: ...

    def replace_token(self, token_id: str, data: bytes, version: int) -> bool: ...

    def delete_token(self, token_id: str, version: int = -1) -> bool: ...


class _Known:
    """A token with what is worked out from the secret key."""

    __slots__ = ("credentials", "hmac", "token")

    def __init__(self, token: Token, mac: bytes, credentials: dict[str, ScramCredential]) -> None:
        self.token = token
        self.hmac = mac
        self.credentials = credentials


class TokenManager:
    """Thread-safe. Errors that a client can cause are `ApiError`s with Kafka's codes."""

    def __init__(
        self,
        zk: TokenZnodes,
        secret: str,
        clock: Clock,
        new_id: Callable[[], str],
        new_salt: Callable[[], bytes],
        *,
        max_lifetime_ms: int,
        default_period_ms: int,
    ) -> None:
        self._zk = zk
        self._secret = secret.encode()
        self._clock = clock
        self._new_id = new_id
        self._new_salt = new_salt
        self._max_lifetime_ms = max_lifetime_ms
        self._default_period_ms = default_period_ms
        self._changing = threading.Lock()
        self._known: dict[str, _Known] = {}

    # -- what others wrote ---------------------------------------------------------------------------------------

    def load(self) -> None:
        """All tokens in ZooKeeper, and no others."""
        for token_id in {*self._zk.token_ids(), *list(self._known)}:
            try:
                self.on_change(token_id.encode())
            except ValueError as error:
                logger.error("delegation token %s cannot be read: %s", token_id, error)

    def on_change(self, data: bytes) -> None:
        """A notification: the token's id. Raises ValueError for a znode that cannot be read."""
        token_id = data.decode("utf-8", "replace")
        with self._changing:
            self._read(token_id)

    # -- what clients ask for ------------------------------------------------------------------------------------

    def create(
        self, owner: Principal, requester: Principal, renewers: tuple[Principal, ...], lifetime_ms: int
    ) -> tuple[Token, bytes]:
        """A new token with its HMAC. A lifetime of 0 or less is the longest."""
        now = self._clock.wall_ms()
        longest = self._max_lifetime_ms
        max_ms = now + (longest if lifetime_ms <= 0 else min(lifetime_ms, longest))
        token = Token(self._new_id(), owner, requester, renewers, now, max_ms, 0)
        with self._changing:
            token = token.until(now + self._default_period_ms)
            self._zk.create_token(token.token_id, encode(token))
            known = self._remember(token)
        return known.token, known.hmac

    def renew(self, caller: Principal, mac: bytes, period_ms: int) -> int:
        """When the token expires now. A negative period is the configured one."""
        return self._move(caller, mac, self._default_period_ms if period_ms < 0 else period_ms)

    def expire(self, caller: Principal, mac: bytes, period_ms: int) -> int:
        """When the token expires now; with a negative period it is gone at once."""
        if period_ms >= 0:
            return self._move(caller, mac, period_ms)
        with self._changing:
            token_id = self._of(caller, mac).token.token_id
            self._zk.delete_token(token_id)
            self._known.pop(token_id, None)
        return self._clock.wall_ms()

    def tokens(self, admits: Callable[[Token], bool]) -> list[tuple[Token, bytes]]:
        """Those that `admits` lets pass, with their HMACs."""
        return [(known.token, known.hmac) for known in list(self._known.values()) if admits(known.token)]

    def login(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """What a login with a token is checked against; None for one that is not there or has expired."""
        known = self._known.get(token_id)
        if known is None or known.token.has_expired(self._clock.wall_ms()):
            return None
        return TokenCredential(known.credentials[mechanism], known.token.owner.name, known.token.expires_ms)

    def remove_expired(self) -> None:
        """What the controller's broker does from time to time. One that was renewed meanwhile stays."""
        now = self._clock.wall_ms()
        for known, _ in self.tokens(lambda token: token.has_expired(now)):
            with self._changing:
                try:
                    token, version = self._read(known.token_id) or (known, -1)
                except ValueError as error:
                    logger.error("delegation token %s cannot be read: %s", known.token_id, error)
                    continue
                if not token.has_expired(now) or not self._zk.delete_token(token.token_id, version):
                    continue
                self._known.pop(token.token_id, None)
            logger.info("delegation token %s of %s has expired", token.token_id, token.owner)

    # -- changes, under the lock ---------------------------------------------------------------------------------

    def _move(self, caller: Principal, mac: bytes, period_ms: int) -> int:
        """What another broker has written since counts, though its notification has not come: a token that is gone
        there is not made again (Kafka 3.9.1 would), and one that has ended does not live on."""
        with self._changing:
            token_id = self._of(caller, mac).token.token_id
            for _ in range(_ATTEMPTS):
                found = self._read(token_id)
                if found is None:
                    raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
                token, version = found
                now = self._clock.wall_ms()
                if token.has_expired(now):
                    raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
                moved = token.until(now + period_ms)
                if self._zk.replace_token(token_id, encode(moved), version):
                    return self._remember(moved).token.expires_ms
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)

    def _read(self, token_id: str) -> tuple[Token, int] | None:
        """The token as it is in ZooKeeper, with its version, and known so from now on; None if it is gone."""
        found = self._zk.token(token_id)
        if found is None:
            self._known.pop(token_id, None)
            return None
        token = decode(found[0])
        self._remember(token)
        return token, found[1]

    def _of(self, caller: Principal, mac: bytes) -> _Known:
        known = next((each for each in self._known.values() if same_secret(each.hmac, mac)), None)
        if known is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not known.token.belongs_to(caller):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return known

    def _remember(self, token: Token) -> _Known:
        before = self._known.get(token.token_id)
        if before is not None:
            known = _Known(token, before.hmac, before.credentials)
        else:
            mac = hmac_of(token.token_id, self._secret)
            credentials = {}
            for mechanism in MECHANISMS.values():
                salt = self._new_salt()
                salted = salted_password(mechanism, password_of(mac), salt, MIN_ITERATIONS)
                credentials[mechanism.name] = credential_of(mechanism, salt, salted, MIN_ITERATIONS)
            known = _Known(token, mac, credentials)
        self._known[token.token_id] = known
        return known


def shown_to(
    caller: Principal,
    owners: list[Principal] | None,
    may_see_token: Callable[[str], bool],
    may_see_owner: Callable[[Principal], bool],
) -> Callable[[Token], bool]:
    """Which tokens a caller is shown: those of the owners that were asked for (None: all) that are the caller's own, or
    that an ACL lets be seen."""

    def admits(token: Token) -> bool:
        if owners is not None and not any(token.belongs_to(owner) for owner in owners):
            return False
        return token.belongs_to(caller) or may_see_token(token.token_id) or may_see_owner(token.owner)

    return admits
