"""`docs/configuration.md`: every key on one page. Run as a module, it writes the page to standard output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from broker.config import documentation
from broker.config.broker_keys import BROKER_KEYS
from broker.config.client_metrics_keys import CLIENT_METRICS_KEYS
from broker.config.dynamic_checks import OF_BOTH, OF_LOGINS, OF_NEW_LISTENERS
from broker.config.group_keys import GROUP_KEYS
from broker.config.honoured import NOT_HONOURED, TOPIC_NOT_HONOURED, Unkept
from broker.config.keys import ConfigKey, UpdateMode
from broker.config.topic_keys import TOPIC_KEYS

_HEAD = """\
# Configuration

Written by `python -m broker.config.reference_page > docs/configuration.md`; do not edit.

Names, types and rules are those of Apache Kafka 3.9. A key that is *not honoured* does no harm at its default value.
With another value it is *refused*, at the start and dynamically, where safety rests on it; else it is taken with a
warning. A key that is not known is taken with a warning, too.

`listener.name.<listener>.<key>` sets `num.network.threads`, `max.connections` and `max.connection.creation.rate` for
one listener.
"""

_WHEN = {
    UpdateMode.READ_ONLY: "in the file",
    UpdateMode.PER_BROKER: "for one broker",
    UpdateMode.CLUSTER_WIDE: "for one broker or all",
    UpdateMode.DYNAMIC_ONLY: "for one broker or all, never in the file",
}


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    parts.append("\n## Brokers\n\n*Set* says where a value can be given while the broker runs, else in the file.\n\n")
    parts.extend(_table("Set", BROKER_KEYS.values(), documentation.BROKER, NOT_HONOURED, _broker_set))
    parts.append("\n## Topics\n\nSet for a topic at any time; without a value the broker's key decides.\n\n")
    parts.extend(_table("Broker's key", TOPIC_KEYS.values(), documentation.TOPIC, TOPIC_NOT_HONOURED, _broker_key))
    parts.append("\n## Groups of the consumer protocol\n\nSet for a group at any time.\n\n")
    parts.extend(_table("Broker's key", GROUP_KEYS.values(), documentation.GROUP, {}, _broker_key))
    parts.append(
        "\n## Subscriptions to client metrics\n\nSet for a subscription (entity `client-metrics`) at any time, with "
        "`odradek.client.telemetry.enable`.\n\n"
    )
    parts.extend(_table("Broker's key", CLIENT_METRICS_KEYS.values(), documentation.CLIENT_METRICS, {}, _broker_key))
    return "".join(parts)


def _broker_set(key: ConfigKey) -> str:
    for keys, whom in ((OF_NEW_LISTENERS, "listeners"), (OF_LOGINS, "logins"), (OF_BOTH, "listeners and logins")):
        if key.name in keys:
            return f"for one broker and its new {whom}"
    return _WHEN[key.mode]


def _broker_key(key: ConfigKey) -> str:
    return "-" if key.broker_key is None else f"`{key.broker_key}`"


def _table(
    column: str,
    keys: Iterable[ConfigKey],
    texts: Mapping[str, str],
    unkept: Mapping[str, Unkept],
    place: Callable[[ConfigKey], str],
) -> Iterator[str]:
    yield f"| Key | Type | Default | {column} | Honoured | What it does |\n|---|---|---|---|---|---|\n"
    for key in sorted(keys, key=lambda each: each.name):
        default = "not set" if key.default is None else f"`{key.default}`" if key.default else "empty"
        row = unkept.get(key.name)
        honoured = "yes" if row is None else "no, refused" if row.refused else "no, warned of"
        text = texts[key.name].replace("|", "\\|")
        yield f"| `{key.name}` | {key.type.name.lower()} | {default} | {place(key)} | {honoured} | {text} |\n"


if __name__ == "__main__":
    print(page(), end="")
