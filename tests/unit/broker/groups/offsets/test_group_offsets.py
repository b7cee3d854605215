"""The offsets of one group."""

from broker.groups.offsets.group_offsets import CommittedOffset, GroupOffsets, OffsetAndMetadata
from tests.support.groups import partition


def test_the_later_in_the_log_wins_whatever_the_order_of_acknowledgements() -> None:
    offsets = GroupOffsets("g")
    name, first, second = partition("t-0"), OffsetAndMetadata(1), OffsetAndMetadata(2)
    offsets.prepare({name: first})
    offsets.prepare({name: second})
    offsets.appended(name, CommittedOffset(11, second))
    assert not offsets.is_unstable(name)
    offsets.prepare({name: OffsetAndMetadata(3)})
    offsets.appended(name, CommittedOffset(10, first))
    assert offsets.get(name) == second
    assert offsets.is_unstable(name)
