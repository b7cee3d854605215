"""Which partition keeps a key."""

from functools import reduce

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


@pytest.mark.parametrize("length", [127, 128, 129, 32_767])
def test_a_long_key_is_no_other_sum(length: int) -> None:
    key = "".join(chr(ord("a") + number % 26) for number in range(length))
    value = reduce(lambda sum_, each: (31 * sum_ + ord(each)) % 2**32, key, 0)
    assert partition_for(key, 50) == abs(value if value < 2**31 else value - 2**32) % 50
