"""The delegation tokens of one broker, if it has `delegation.token.secret.key`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.security.tokens.manager import TokenManager
from controller.zk import paths
from controller.zk.change_listener import ChangeListener
from network.protocol.uuids import new_uuid, to_text
from network.sasl.nonces import new_salt

if TYPE_CHECKING:
    from broker.requests.context import BrokerContext
    from timer.scheduler import Scheduler


def make_tokens(context: BrokerContext, scheduler: Scheduler) -> TokenManager | None:
    """None without the key: nobody gets a token then, and none is taken."""
    config = context.config
    secret = config["delegation.token.secret.key"] or config["delegation.token.master.key"]
    if not secret:
        return None
    tokens = TokenManager(
        context.zk,
        secret,
        context.clock,
        lambda: to_text(new_uuid(context.chance)),
        new_salt,
        max_lifetime_ms=config.get_int("delegation.token.max.lifetime.ms"),
        default_period_ms=config.get_int("delegation.token.expiry.time.ms"),
    )

    def remove_expired() -> None:
        if context.is_controller:
            tokens.remove_expired()

    period_ms = config.get_int("delegation.token.expiry.check.interval.ms")
    scheduler.schedule("delegation-token-expiry", remove_expired, period_ms, period_ms)
    return tokens


def listen_for_tokens(context: BrokerContext, tokens: TokenManager) -> ChangeListener:
    """From now on the broker knows every token. It listens before it loads, so that nothing is missed."""
    context.zk.create_token_paths()
    listener = ChangeListener(
        context.zk,
        paths.DELEGATION_TOKEN_CHANGES,
        paths.DELEGATION_TOKEN_CHANGE_PREFIX,
        tokens.on_change,
        context.clock,
        context.workers,
        tokens.load,
    )
    listener.start()
    tokens.load()
    return listener
