"""Assignors of the coordinator, by the names that members give.

An assignor is a pure function of what the members subscribe to, how many partitions the topics have, and the target
assignment of before.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.groups.consumer.assignors.range import assign_range
from broker.groups.consumer.assignors.spec import Assignor
from broker.groups.consumer.assignors.uniform import assign_uniform

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}

_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


def configured(names: list[str]) -> dict[str, Assignor]:
    """The assignors of `group.consumer.assignors`, the default one first; names of Kafka's own classes mean ours.

    Raises ValueError for any other class, which a broker without a JVM cannot load, and for an empty list.
    """
    found: dict[str, Assignor] = {}
    for name in names:
        short = _CLASSES.get(name, name)
        if short not in ASSIGNORS:
            raise ValueError(f"group.consumer.assignors: {name} is not one of {', '.join(ASSIGNORS)}")
        found[short] = ASSIGNORS[short]
    if not found:
        raise ValueError("group.consumer.assignors is empty")
    return found
