"""`inter.broker.protocol.version`: the ordered list of versions and what each turns on."""

from __future__ import annotations

# fmt: off
_NAMES = (
    "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2",
    "0.10.2-IV0", "0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0", "2.0-IV0", "2.0-IV1", "2.1-IV0",
    "2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1", "2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0",
    "2.7-IV0", "2.7-IV1", "2.7-IV2", "2.8-IV0", "2.8-IV1", "3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0",
    "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1",
)
# fmt: on
_RANK = {name: rank for rank, name in enumerate(_NAMES)}


def resolve_version(text: str) -> str:
    """The full name of a version given in full (`3.9-IV0`) or short (`3.9`, `2.7.1`: the last of that release).

    Raises `ValueError` for a version that does not exist.
    """
    if text in _RANK:
        return text
    parts = text.split("-")[0].split(".")
    release = ".".join(parts[:3] if parts[0] == "0" else parts[:2])
    # A bare release means its last version; "0.10.0" is also a prefix of nothing else.
    matches = [name for name in _NAMES if name.split("-")[0] == release]
    if not matches or (len(text.split("-")) > 1):
        raise ValueError(f"Version {text!r} is not a valid version. The valid versions are {', '.join(_NAMES)}")
    return matches[-1]


class MetadataVersion:
    """One `inter.broker.protocol.version`; compares by age."""

    __slots__ = ("name", "rank")

    def __init__(self, text: str) -> None:
        self.name = resolve_version(text)
        self.rank = _RANK[self.name]

    def at_least(self, name: str) -> bool:
        return self.rank >= _RANK[name]

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetadataVersion) and other.rank == self.rank

    def __hash__(self) -> int:
        return self.rank

    @property
    def truncates_on_fetch(self) -> bool:
        """Followers send their last fetched epoch and truncate by the diverging epoch of a Fetch answer."""
        return self.at_least("2.7-IV1")

    @property
    def uses_offset_for_leader_epoch(self) -> bool:
        return self.at_least("0.11.0-IV2")

    @property
    def uses_alter_partition(self) -> bool:
        """ISR changes go through the controller instead of being written to ZooKeeper by the leader."""
        return self.at_least("2.7-IV2")

    @property
    def uses_topic_ids(self) -> bool:
        return self.at_least("2.8-IV0")

    @property
    def allocates_producer_ids(self) -> bool:
        """Producer id blocks come from the controller; before, each broker takes them from ZooKeeper."""
        return self.at_least("3.0-IV0")

    @property
    def has_leader_recovery_state(self) -> bool:
        return self.at_least("3.2-IV0")

    @property
    def fetch_request_version(self) -> int:
        return _first(self, _FETCH, 1)

    @property
    def list_offsets_request_version(self) -> int:
        return _first(self, _LIST_OFFSETS, 0)

    @property
    def offset_for_leader_epoch_request_version(self) -> int:
        return _first(self, _OFFSET_FOR_LEADER_EPOCH, 0)


_FETCH = (
    ("3.9-IV0", 17),
    ("3.7-IV4", 16),
    ("3.5-IV1", 15),
    ("3.5-IV0", 14),
    ("3.1-IV0", 13),
    ("2.7-IV1", 12),
    ("2.3-IV1", 11),
    ("2.1-IV2", 10),
    ("2.0-IV1", 8),
    ("1.1-IV0", 7),
    ("0.11.0-IV1", 5),
    ("0.11.0-IV0", 4),
    ("0.10.1-IV1", 3),
    ("0.10.0-IV0", 2),
)
_LIST_OFFSETS = (
    ("3.9-IV0", 9),
    ("3.5-IV0", 8),
    ("3.0-IV1", 7),
    ("2.8-IV0", 6),
    ("2.2-IV1", 5),
    ("2.1-IV1", 4),
    ("2.0-IV1", 3),
    ("0.11.0-IV0", 2),
    ("0.10.1-IV2", 1),
)
_OFFSET_FOR_LEADER_EPOCH = (("2.8-IV0", 4), ("2.3-IV1", 3), ("2.1-IV1", 2), ("2.0-IV0", 1))


def _first(version: MetadataVersion, table: tuple[tuple[str, int], ...], otherwise: int) -> int:
    return next((request_version for name, request_version in table if version.at_least(name)), otherwise)
