"""Dynamic configs: reading and writing `/config/<type>/<name>`, and the change notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.zk import paths
from controller.zk.access import ControllerMovedError
from controller.zk.controllership import ControllerZnodes
from controller.zk.ops import Check, Code, Multi, SetData
from controller.zk.payloads import decode_config, decode_config_change, encode_config, encode_config_change
from controller.zk.session import ZkError


class ConfigZnodes(ControllerZnodes):
    """Typed access to `/config`. An entity path is like `topics/t`, `brokers/1`, `users/alice/clients/app`."""

    def config(self, entity_path: str) -> dict[str, str]:
        """All overrides of an entity; empty if it has none."""
        found = self.read(paths.config_entity(entity_path))
        return {} if found is None else decode_config(found[0])

    def topic_config(self, topic: str) -> dict[str, str]:
        return self.config(f"{paths.TOPIC_CONFIG}/{topic}")

    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The overrides of many topics, pipelined; empty for topics without."""
        found = self.read_all([paths.config_entity(f"{paths.TOPIC_CONFIG}/{topic}") for topic in topics])
        return {
            topic: {} if item is None else decode_config(item[0]) for topic, item in zip(topics, found, strict=True)
        }

    def config_entities(self, entity_type: str) -> list[str]:
        """Names (as in the path) of the entities of a type that have a config znode."""
        return sorted(self.children(paths.config_entity(entity_type), watch=False))

    def set_config(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Replace all overrides of an entity.

        Refused with `ControllerMovedError` while there is no ZooKeeper controller: nobody may write configs behind
        the back of a KRaft controller that takes the cluster over. Concurrent writers: the last one wins.
        """
        path, data = paths.config_entity(entity_path), encode_config(config)
        while True:
            response = self._one(Multi((self._controller_guard(), SetData(path, data))))
            if response.ok:
                return
            if response.results and not response.results[0].ok and response.results[0].code is not Code.NO_NODE:
                raise ZkError(response.code, paths.CONTROLLER)
            if response.code is not Code.NO_NODE:
                raise ZkError(response.code, path)
            try:
                self.create_recursive(path, data)
                return
            except ZkError as error:
                if error.code is not Code.NODE_EXISTS:
                    raise

    def delete_config(self, entity_path: str) -> None:
        """Remove the config znode of an entity and what is below it."""
        self.delete_recursive(paths.config_entity(entity_path))

    def create_config_change(self, entity_path: str) -> None:
        """Tell all brokers to read the config of an entity again."""
        changes = paths.config_changes(entity_path.partition("/")[0])
        self.create_sequential(f"{changes}/{paths.CONFIG_CHANGE_PREFIX}", encode_config_change(entity_path))

    def config_change_names(self) -> list[str]:
        """Names of all config change notifications. Arms the child watch if a handler is registered."""
        return sorted(self.children(paths.CONFIG_CHANGES))

    def config_change(self, name: str) -> str | None:
        """The entity path that a notification names; None if it is gone or no JSON. Raises `PayloadError`."""
        found = self.read(f"{paths.CONFIG_CHANGES}/{name}")
        return None if found is None else decode_config_change(found[0])

    def _controller_guard(self) -> Check:
        found = self.controller_with_version()
        if found is None:
            raise ControllerMovedError("there is no controller: configs cannot be written now")
        controller, version = found
        if controller.kraft_epoch > 0:
            raise ControllerMovedError("a KRaft controller owns this cluster: configs cannot be written directly")
        return Check(paths.CONTROLLER, version)
