from __future__ import annotations

from typing import Any, cast

from broker.config.broker_keys import BROKER_KEYS
from broker.config.dynamic_checks import OF_NEW_LISTENERS
from broker.config.honoured import NOT_HONOURED
from broker.config.keys import UpdateMode
from broker.config.reconfiguration import Reconfiguration


def test_every_key_that_can_be_changed_has_a_receiver() -> None:
    dynamic = {name for name, key in BROKER_KEYS.items() if key.mode is not UpdateMode.READ_ONLY}
    receivers = Reconfiguration(cast(Any, None)).receivers
    assert dynamic - NOT_HONOURED.keys() - set(OF_NEW_LISTENERS) - receivers.keys() == set()


def test_receivers_are_for_keys_that_can_be_changed() -> None:
    receivers = Reconfiguration(cast(Any, None)).receivers
    read_only = {name for name in receivers if BROKER_KEYS[name].mode is UpdateMode.READ_ONLY}
    assert read_only == {"log.message.format.version"}
