"""Which broker is the controller, and ways to make it another one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from broker.dev.polling import wait_until
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.cluster import CLOCK, Cluster

_TIMEOUT_MS = 120_000


def controller(client: KazooClient) -> tuple[int, int] | None:
    """Broker id and epoch of the controller."""
    try:
        return json.loads(client.get("/controller")[0])["brokerid"], int(client.get("/controller_epoch")[0])
    except NoNodeError:
        return None


def elect_controller(cluster: Cluster, client: KazooClient, wanted: Collection[int]) -> tuple[int, int]:
    """Take `/controller` away from brokers until a wanted one has it and every running broker names it.

    Returns its id and epoch.
    """

    def elected() -> bool:
        now = controller(client)
        if now is not None and now[0] not in wanted:
            with contextlib.suppress(NoNodeError):
                client.delete("/controller")
        return now is not None and now[0] in wanted

    def named() -> bool:
        now = controller(client)
        with contextlib.suppress(OSError):
            return now is not None and all(
                wire.call(broker, MetadataRequest(topics=[]), 12).controller_id == now[0] for broker in cluster.running
            )
        return False

    assert wait_until(elected, CLOCK, _TIMEOUT_MS, 1000), f"none of {wanted} becomes the controller"
    assert wait_until(named, CLOCK, _TIMEOUT_MS, 200), f"not every broker names {controller(client)}"
    found = controller(client)
    assert found is not None
    assert found[0] in wanted
    return found
