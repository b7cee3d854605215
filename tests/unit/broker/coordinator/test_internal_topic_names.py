"""Which partition keeps a key."""

import pytest

from broker.coordinator.internal_topic_names import partition_for


@pytest.mark.parametrize(
    ("key", "partition"),
    # String.hashCode of these is known: "" 0, "a" 97, "polygenelubricants" is the smallest int32, the last has a
    # character outside the basic plane, which Java keeps as two units.
    [("", 0), ("a", 47), ("polygenelubricants", 0), ("\U0001f600", (0xD83D * 31 + 0xDE00) % 50)],
)
def test_the_partition_of_a_key_is_that_of_java(key: str, partition: int) -> None:
    assert partition_for(key, 50) == partition
