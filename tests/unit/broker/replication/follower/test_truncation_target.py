from __future__ import annotations

import pytest

from broker.replication.follower.fetcher_manager import fetcher_index
from broker.replication.follower.truncation_target import Truncation, truncation_target
from broker.replication.results import EpochEndOffset
from log.topic_partition import TopicPartition


class History:
    """Epochs with their start offsets."""

    def __init__(self, end: int, *epochs: tuple[int, int]) -> None:
        self.log_end_offset = end
        self._epochs = epochs

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        known = [entry for entry in self._epochs if entry[0] <= epoch]
        if not known:
            return -1, -1
        later = [start for number, start in self._epochs if number > epoch]
        return known[-1][0], min(later, default=self.log_end_offset)


@pytest.mark.parametrize(
    ("leader", "expected"),
    [
        (EpochEndOffset(-1, -1), Truncation(7, True)),  # no answer: the fetch offset, which is the high watermark
        (EpochEndOffset(-1, 6), Truncation(6, True)),  # an old leader that names no epoch
        (EpochEndOffset(3, 8), Truncation(8, True)),  # same epoch, the leader ends earlier
        (EpochEndOffset(3, 90), Truncation(10, True)),  # same epoch, we end earlier
        (EpochEndOffset(2, 9), Truncation(4, False)),  # an epoch we do not have: down to our epoch 1, ask again
        (EpochEndOffset(1, 2), Truncation(2, True)),
        (EpochEndOffset(0, 3), Truncation(3, True)),  # older than everything we have
    ],
)
def test_truncation(leader: EpochEndOffset, expected: Truncation) -> None:
    assert truncation_target(History(10, (1, 0), (3, 4)), 7, leader) == expected


def test_fetcher_index_is_kafkas() -> None:
    assert fetcher_index(TopicPartition("t", 0), 1) == 0
    # "ab".hashCode() is 97 * 31 + 98 = 3105
    assert fetcher_index(TopicPartition("ab", 5), 7) == (31 * 3105 + 5) % 7
