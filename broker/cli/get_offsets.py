"""``odradek get-offsets``: first, last or timed offsets of partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from broker.cli.client import bootstrap_option, cluster
from broker.cli.errors import CommandError
from broker.cli.group_offsets import list_offsets
from broker.cli.output import rows
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient

_NAMED = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
_TOPICS = "`odradek topics describe` shows topics and partitions"
_NUMBERS = re.compile(r"(\d*)-(\d*)|(\d+)")


@click.command("get-offsets")
@bootstrap_option
@click.option("--topic", metavar="REGEX", help="Topics whose whole name matches; all without it.")
@click.option(
    "--partitions",
    metavar="0,2-4",
    help="Only these partitions; in 2-4 and -4 the last one is not meant, N- goes to the end.",
)
@click.option(
    "--topic-partitions", metavar="REGEX:0-5,...", help="Topics with partitions, in place of --topic and --partitions."
)
@click.option(
    "--time",
    "moment",
    default="latest",
    show_default=True,
    metavar="latest|earliest|max-timestamp|MS",
    help="Also -1 to -5 as in Kafka; else milliseconds since 1970: the first record at or after them.",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave out topics of the brokers themselves.")
def command(
    bootstrap_server: str,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    moment: str,
    exclude_internal_topics: bool,
) -> None:
    """Offsets of partitions at a time. A partition without a record that late has none (-).

    The exit code is 1 when a topic, or one of the numbers or ranges of partitions, matches nothing.
    """
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise CommandError("--topic-partitions is given in place of --topic and --partitions", exit_code=2)
    timestamp = _timestamp(moment)
    rules = _rules(topic, partitions, topic_partitions)
    with cluster(bootstrap_server) as client:
        every = _partitions(client, exclude_internal_topics)
        found = [tp for tp in every if any(rule.matches(tp) for rule in rules)]
        unmatched = [text for rule in rules for text in rule.unmatched(every)]
        if not found:
            raise CommandError(f"no partition matches {', '.join(unmatched)}; {_TOPICS}")
        offsets = list_offsets(client, found, timestamp)
    known = {tp: offset for tp, offset in offsets.items() if offset >= 0}
    rows(["TOPIC", "PARTITION", "OFFSET"], [[*tp, known.get(tp)] for tp in found])
    problems = [f"no partition matches {', '.join(unmatched)}; {_TOPICS}"] if unmatched else []
    leaderless = [str(tp) for tp in found if tp not in offsets]
    if leaderless:
        problems.append(f"no leader to ask about {', '.join(leaderless)}")
    if problems:
        raise CommandError("; ".join(problems))


def _timestamp(text: str) -> int:
    if text in _NAMED:
        return _NAMED[text]
    if not re.fullmatch(r"\d+|-[1-5]", text):
        raise CommandError(f"--time {text!r} is none of {', '.join(_NAMED)} and no milliseconds", exit_code=2)
    return int(text)


class _Rule:
    """Topics by a regular expression, and ranges of their partitions, open at the end that is None."""

    def __init__(self, topic: str, partitions: str | None) -> None:
        try:
            self._topic = re.compile(topic or ".*")
        except re.error as error:
            raise CommandError(f"{topic!r} is not a regular expression: {error}", exit_code=2) from None
        self._name = topic or ".*"
        parts = [] if partitions is None else [part.strip() for part in partitions.split(",")]
        self._ranges = {part: _range(part) for part in parts}

    def matches(self, tp: TopicPartition) -> bool:
        if not self._topic.fullmatch(tp.topic):
            return False
        return not self._ranges or any(_is_in(tp, each) for each in self._ranges.values())

    def unmatched(self, every: Iterable[TopicPartition]) -> list[str]:
        """What of the rule means none of these partitions: the topic, or single numbers and ranges."""
        own = [tp for tp in every if self._topic.fullmatch(tp.topic)]
        if not own:
            return [self._name]
        return [
            f"{self._name}:{text}" for text, each in self._ranges.items() if not any(_is_in(tp, each) for tp in own)
        ]


def _is_in(tp: TopicPartition, numbers: tuple[int, int | None]) -> bool:
    first, end = numbers
    return first <= tp.partition and (end is None or tp.partition < end)


def _range(text: str) -> tuple[int, int | None]:
    found = _NUMBERS.fullmatch(text)
    if found is None or text == "-":
        raise CommandError(f"partitions {text!r} are not like 3, 0-5, 2- or -4", exit_code=2)
    first, end, one = found.groups()
    if one is not None:
        return int(one), int(one) + 1
    return int(first or 0), int(end) if end else None


def _rules(topic: str | None, partitions: str | None, topic_partitions: str | None) -> list[_Rule]:
    if topic_partitions is None:
        return [_Rule(topic or "", partitions)]
    rules = []
    for text in topic_partitions.split(","):
        name, _, numbers = text.partition(":")
        rules.append(_Rule(name, numbers or None))
    return rules


def _partitions(client: ClusterClient, exclude_internal: bool) -> list[TopicPartition]:
    topics = client.metadata().topics
    return [
        TopicPartition(name, number)
        for name in sorted(topics)
        if not (exclude_internal and topics[name].internal)
        for number in sorted(topics[name].partitions)
    ]
