"""To which offset a follower has to truncate its log: a pure function of both sides' leader epochs (KIP-101, KIP-279,
KIP-595). `fetcher.py` asks the leader and has it done."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from broker.replication.results import EpochEndOffset


class EpochHistory(Protocol):
    """What is needed of a log."""

    @property
    def log_end_offset(self) -> int: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest known epoch <= `epoch`; (-1, -1) if there is none."""
        ...


class Truncation(NamedTuple):
    """The offset to truncate to; unless `completed`, the leader has to be asked again about an older epoch."""

    offset: int
    completed: bool


def truncation_target(log: EpochHistory, fetch_offset: int, leader: EpochEndOffset) -> Truncation:
    """What to do with the leader's answer (its epoch, that epoch's end offset in its log).

    The leader knows nothing of our epoch: keep what is below the fetch offset. The leader answered for an older epoch
    than we have: go down to the end of our largest epoch up to that one, and ask again. Same epoch: the smaller of the
    two ends.
    """
    end = log.log_end_offset
    if leader.end_offset < 0:
        return Truncation(min(fetch_offset, end), True)
    if leader.epoch < 0:
        return Truncation(min(leader.end_offset, end), True)
    own_epoch, own_end = log.end_offset_for_epoch(leader.epoch)
    if own_end < 0:
        return Truncation(min(leader.end_offset, end), True)
    if own_epoch != leader.epoch:
        return Truncation(min(own_end, end), False)
    return Truncation(min(own_end, leader.end_offset, end), True)
