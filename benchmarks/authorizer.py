"""What one decision by ACLs costs with 10,000 of them.

    python -m benchmarks.authorizer [--quick] [--json]

Microseconds of CPU a decision, the best of several rounds. `kept`: asked before, as for most requests of a client.
`new`: never asked before. `longest`: prefixes of every length up to 200, and a name that all of them fit. The sets:
principals with one topic each, one principal with prefixes, one topic with many principals.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

from broker.requests.authorization import Operation, ResourceType
from broker.security.acl_index import AclIndex
from broker.security.acls import ALLOW, LITERAL, PREFIXED, Entry, Pattern

ACLS = 10_000
ROUNDS, QUICK_ROUNDS, DECISIONS = 30, 3, 500
HOST = "10.0.0.1"
TOPIC = ResourceType.TOPIC


def entry(principal: str) -> Entry:
    return Entry(principal, "*", Operation.READ, ALLOW)


def many_users() -> AclIndex:
    index = AclIndex()
    for number in range(ACLS):
        index.put(Pattern(TOPIC, f"topic-{number}", LITERAL), frozenset({entry(f"User:u{number}")}))
    return index


def many_prefixes() -> AclIndex:
    index = AclIndex()
    for number in range(ACLS):
        index.put(Pattern(TOPIC, f"team-{number}-", PREFIXED), frozenset({entry("User:u")}))
    return index


def one_topic() -> AclIndex:
    index = AclIndex()
    index.put(Pattern(TOPIC, "topic", LITERAL), frozenset(entry(f"User:u{number}") for number in range(ACLS)))
    return index


def all_lengths() -> AclIndex:
    index = many_prefixes()
    for length in range(1, 200):
        index.put(Pattern(TOPIC, "x" * length, PREFIXED), frozenset({entry("User:u")}))
    return index


def measure(decide: Callable[[int], bool], rounds: int) -> float:
    """Microseconds a decision."""
    found = []
    number = 0
    for _ in range(rounds):
        began = time.thread_time_ns()
        for _ in range(DECISIONS):
            decide(number)
            number += 1
        found.append((time.thread_time_ns() - began) / DECISIONS / 1000)
    return min(found)


def figures(rounds: int = ROUNDS) -> dict[str, float]:
    """Microseconds of CPU a decision, by kind."""
    read = Operation.READ
    users, prefixes, topic, lengths = many_users(), many_prefixes(), one_topic(), all_lengths()
    timed = partial(measure, rounds=rounds)
    return {
        "kept": timed(lambda _: users.decide("User:u77", HOST, read, TOPIC, "topic-77")),
        "new, allowed by name": timed(
            lambda n: users.decide(f"User:u{n % ACLS}", f"10.1.{n}", read, TOPIC, f"topic-{n % ACLS}")
        ),
        "new, denied": timed(lambda n: users.decide("User:u77", HOST, read, TOPIC, f"nothing-{n}")),
        "new, allowed by prefix": timed(
            lambda n: prefixes.decide("User:u", HOST, read, TOPIC, f"team-{n % ACLS}-events-{n}")
        ),
        "new, one of 10,000 users of a topic": timed(
            lambda n: topic.decide(f"User:u{n % ACLS}", f"10.2.{n}", read, TOPIC, "topic")
        ),
        "new, longest": timed(lambda n: lengths.decide("User:u", HOST, read, TOPIC, "x" * 199 + str(n))),
    }


def show(found: dict[str, float]) -> None:
    for name, microseconds in found.items():
        print(f"{name:40} {microseconds:8.2f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the best of few rounds")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    arguments = parser.parse_args()
    found = figures(QUICK_ROUNDS if arguments.quick else ROUNDS)
    if arguments.json:
        print(json.dumps(found))
        return
    show(found)


if __name__ == "__main__":
    main()
