"""Broker registration, generated ids, the cluster id and the znodes that every broker makes sure of."""

from __future__ import annotations

import base64
import logging

from controller.zk import paths
from controller.zk.access import ZnodeAccess, expect
from controller.zk.ops import Code, Create, Delete, Exists, Multi, SetData
from controller.zk.payloads import (
    BrokerInfo,
    PayloadError,
    decode_broker,
    decode_cluster_id,
    encode_broker,
    encode_cluster_id,
)
from controller.zk.session import ZkError
from timer.chance import Chance, random_uuid

logger = logging.getLogger(__name__)


class BrokerIdInUseError(ZkError):
    """Another session holds the registration of this id. `held` says so, without guessing why."""

    def __init__(self, broker_id: int, owner: int) -> None:
        self.held = f"Broker id {broker_id} is already registered by session {owner:#x}"
        super().__init__(
            Code.NODE_EXISTS,
            paths.broker_id(broker_id),
            f"{self.held}. Either another broker has this id, or the session of its previous process has not timed out "
            "yet.",
        )


class BrokerZnodes(ZnodeAccess):
    """Typed access to `/brokers/ids`, `/brokers/seqid` and `/cluster/id`."""

    # The session that this process last registered under; 0 before it did.
    _registered_session = 0

    def create_startup_paths(self) -> None:
        """Make sure of the persistent znodes that a broker needs, in Kafka's order."""
        wanted = paths.PERSISTENT_AT_STARTUP
        for path, found in zip(wanted, self.session.submit([Exists(path) for path in wanted]), strict=True):
            if not found.ok:
                self.create_recursive(path, None, fail_if_exists=False)

    def register_broker(self, broker: BrokerInfo, json_version: int, timestamp_ms: int) -> int:
        """Create `/brokers/ids/N`; returns the broker epoch (czxid).

        A znode left by this process's own expired session is replaced. Raises `BrokerIdInUseError` if another session
        owns the id: after a crash that lasts until the old session times out.
        """
        path = paths.broker_id(broker.id)
        data = encode_broker(broker, json_version, timestamp_ms)
        # Created empty and set in one transaction: the stat of the second operation carries the czxid.
        create = Multi((Create(path, None, ephemeral=True), SetData(path, data, 0)))
        while True:
            response = self._one(create)
            if response.ok:
                stat = response.results[1].stat
                assert stat is not None
                epoch = stat.czxid
                break
            if response.code is not Code.NODE_EXISTS:
                raise ZkError(response.code, path)
            found = self.read(path)
            if found is None:
                continue
            owner = found[1].ephemeral_owner
            if owner == self.session.session_id:
                epoch = found[1].czxid
                break
            if owner == 0:
                raise ZkError(Code.NODE_EXISTS, path, f"{path} is no ephemeral znode: nobody's registration")
            if owner != self._registered_session:
                raise BrokerIdInUseError(broker.id, owner)
            logger.info("Deleting the registration of broker %d left by our expired session %#x", broker.id, owner)
            deleted = self._one(Delete(path))
            if deleted.code not in (Code.OK, Code.NO_NODE):
                raise ZkError(deleted.code, path)
        self._registered_session = self.session.session_id
        logger.info("Registered broker %d with epoch %d", broker.id, epoch)
        return epoch

    def update_broker(self, broker: BrokerInfo, json_version: int, timestamp_ms: int) -> None:
        """Rewrite an existing registration (changed listeners); the broker epoch stays."""
        path = paths.broker_id(broker.id)
        expect(self._one(SetData(path, encode_broker(broker, json_version, timestamp_ms))), path)

    def endpoint_conflict(self, broker: BrokerInfo) -> str | None:
        """The first `host:port` of `broker` that another id has registered, with that id; None if there is none."""
        mine = {(item.host, item.port) for item in broker.endpoints}
        for other in self.brokers().values():
            for endpoint in other.endpoints:
                if other.id != broker.id and (endpoint.host, endpoint.port) in mine:
                    return f"{endpoint.host}:{endpoint.port} is already registered by broker {other.id}"
        return None

    def broker_ids(self) -> list[int]:
        """Registered ids, ascending. Arms the child watch if a handler is registered."""
        return sorted(int(name) for name in self.children(paths.BROKER_IDS))

    def broker(self, broker_id: int) -> BrokerInfo | None:
        """One registration with its epoch. Raises `PayloadError` if it cannot be read."""
        found = self.read(paths.broker_id(broker_id))
        return None if found is None else decode_broker(broker_id, found[0], found[1].czxid)

    def brokers(self, *, skip_unreadable: bool = False) -> dict[int, BrokerInfo]:
        """All registrations with their epochs, by id ascending.

        A registration that cannot be read raises `PayloadError`, or is logged and left out with `skip_unreadable`.
        """
        ids = self.broker_ids()
        brokers: dict[int, BrokerInfo] = {}
        for broker_id, item in zip(ids, self.read_all([paths.broker_id(item) for item in ids]), strict=True):
            if item is None:
                continue
            try:
                brokers[broker_id] = decode_broker(broker_id, item[0], item[1].czxid)
            except PayloadError:
                if not skip_unreadable:
                    raise
                logger.exception("Ignoring broker %d: its registration cannot be read", broker_id)
        return brokers

    def generate_broker_id(self, reserved_max_id: int) -> int:
        """A new id above `reserved.broker.max.id`, unique in the cluster."""
        while True:
            response = self._one(SetData(paths.BROKER_SEQUENCE_ID, b""))
            if response.ok:
                assert response.stat is not None
                return response.stat.version + reserved_max_id
            if response.code is not Code.NO_NODE:
                raise ZkError(response.code, paths.BROKER_SEQUENCE_ID)
            self.create_recursive(paths.BROKER_SEQUENCE_ID, None, fail_if_exists=False)

    def cluster_id(self) -> str | None:
        """The cluster's id, or None if there is none yet."""
        found = self.read(paths.CLUSTER_ID)
        return None if found is None else decode_cluster_id(found[0])

    def create_or_get_cluster_id(self, chance: Chance) -> str:
        """The cluster's id; the first broker of a cluster makes one (22 URL-safe base64 characters)."""
        existing = self.cluster_id()
        if existing is not None:
            return existing
        new = base64.urlsafe_b64encode(random_uuid(chance).bytes).rstrip(b"=").decode()
        try:
            self.create_recursive(paths.CLUSTER_ID, encode_cluster_id(new))
        except ZkError as error:
            if error.code is not Code.NODE_EXISTS:
                raise
            existing = self.cluster_id()
            if existing is None:
                raise PayloadError("/cluster/id vanished while it was read") from error
            return existing
        return new
