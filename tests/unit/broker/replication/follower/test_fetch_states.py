"""A fetcher that looks at what has changed asks for the same as one that looks at everything."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.fetching.fetch_session import FetchSession, PartitionKey
from broker.replication.follower.fetch_session_client import FetchSessionClient
from broker.replication.follower.fetch_state import PartitionFetchState, ReplicaState
from broker.replication.follower.fetch_states import LOOK_AT_ALL_MS, FetchStates, Wanted
from broker.replication.results import FetchPartitionData
from log.topic_partition import TopicPartition
from network.protocol.messages.fetch import FetchRequest, FetchResponse
from network.protocol.uuids import ZERO_UUID

VERSION = 17
PLACES = [TopicPartition(f"topic-{number // 4}", number % 4) for number in range(12)]


class Fetcher:
    """The states of a fetcher, its log starts, and what it asks for."""

    def __init__(self) -> None:
        self.states = FetchStates()
        self.wanted = Wanted(self.states, self.item)
        self.log_starts = dict.fromkeys(PLACES, 0)
        self.now = 0
        self.is_throttled = False

    def item(self, tp: TopicPartition, state: PartitionFetchState, now_ms: int) -> FetchPartitionData | None:
        if not state.is_ready(now_ms) or (self.is_throttled and not state.is_replica_in_sync):
            return None
        return FetchPartitionData(state.topic_id, state.fetch_offset, self.log_starts[tp], 1, 1)

    def everything(self) -> dict[TopicPartition, FetchPartitionData]:
        found = {tp: self.item(tp, state, self.now) for tp, state in self.states.items()}
        return {tp: item for tp, item in found.items() if item is not None}

    def happens(self, chance: random.Random, with_ids: bool) -> None:
        tp = chance.choice(PLACES)
        state = self.states.get(tp)
        event = chance.choice(["add", "remove", "data", "delay", "truncate", "time", "throttle"])
        if event == "add" and state is None:
            # A topic that was deleted and made again has another id.
            topic_id = bytes([len(tp.topic), chance.randrange(2), *tp.topic.encode()[-1:]]).ljust(16, b"x")
            known = [each.topic_id for place, each in self.states.items() if place.topic == tp.topic]
            topic_id = known[0] if known else topic_id
            self.states[tp] = PartitionFetchState(
                topic_id if with_ids else ZERO_UUID, 0, None, 1, 0, ReplicaState.FETCHING
            )
        elif event == "remove" and state is not None:
            self.states.pop(tp)
        elif event == "data" and state is not None:
            self.states.put_last(tp, state.with_(fetch_offset=state.fetch_offset + 1, lag=chance.randrange(2)))
        elif event == "delay" and state is not None:
            self.states.put_last(tp, state.with_(delay_until_ms=self.now + 20))
        elif event == "truncate" and state is not None:
            is_fetching = state.state is ReplicaState.FETCHING
            self.states[tp] = state.with_(state=ReplicaState.TRUNCATING if is_fetching else ReplicaState.FETCHING)
        elif event == "throttle":
            self.is_throttled = not self.is_throttled
        elif event == "time":
            self.now += 10


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_leader_s_session_is_what_is_wanted(seed: int, with_ids: bool) -> None:
    chance, fetcher, client = random.Random(seed), Fetcher(), FetchSessionClient("follower")
    session: FetchSession | None = None
    for _ in range(600):
        for _ in range(chance.randrange(4)):
            fetcher.happens(chance, with_ids)
        fetcher.wanted.update(fetcher.now)
        assert fetcher.wanted.partitions == fetcher.everything()
        assert {tp for tp, state in fetcher.states.items() if not state.is_ready(fetcher.now)} <= {
            tp for tp, _ in fetcher.wanted.unsettled()
        }
        if not fetcher.wanted.partitions:
            continue
        wanted = dict(fetcher.wanted.partitions)
        request, version = client.build(fetcher.wanted.partitions, fetcher.wanted.take_changes(), VERSION)
        assert version == (VERSION if with_ids else 12)
        if chance.random() < 0.05:
            client.on_failure()  # the connection breaks, before or after the leader has seen it
            session = None if chance.random() < 0.5 else session
            continue
        session = _apply(session, request, with_ids)
        assert {(cached.key, cached.wanted) for cached in session.partitions.values()} == {
            (_key(tp, item, with_ids), item) for tp, item in wanted.items()
        }
        assert client.partitions == wanted
        if with_ids:
            assert client.names == {item.topic_id: tp.topic for tp, item in wanted.items()}
        answers: Any = wanted if request.session_epoch == 0 else {}
        assert client.handle(FetchResponse(session_id=5), answers, unknown=False)


def test_what_nobody_tells_of_is_seen_after_a_while() -> None:
    fetcher = Fetcher()
    fetcher.states[PLACES[0]] = PartitionFetchState(ZERO_UUID, 0, 0, 1, 0, ReplicaState.FETCHING)
    fetcher.wanted.update(0)
    fetcher.wanted.take_changes()
    fetcher.log_starts[PLACES[0]] = 3
    fetcher.wanted.update(LOOK_AT_ALL_MS - 1)
    assert not fetcher.wanted.take_changes()
    fetcher.wanted.update(LOOK_AT_ALL_MS)
    assert fetcher.wanted.take_changes() == [PLACES[0]]
    assert fetcher.wanted.partitions[PLACES[0]].log_start_offset == 3


def _key(tp: TopicPartition, item: FetchPartitionData, with_ids: bool) -> PartitionKey:
    if with_ids:
        return PartitionKey(None, item.topic_id, tp.partition)
    return PartitionKey(tp.topic, ZERO_UUID, tp.partition)


def _apply(session: FetchSession | None, request: FetchRequest, with_ids: bool) -> FetchSession:
    """As the leader does."""
    if request.session_epoch == 0 or session is None:
        assert request.session_epoch == 0
        session = FetchSession(5, True, {}, with_ids, 0)
    asked = []
    for topic in request.topics:
        for each in topic.partitions:
            item = FetchPartitionData(
                topic.topic_id, each.fetch_offset, each.log_start_offset, each.partition_max_bytes,
                each.current_leader_epoch, each.last_fetched_epoch,
            )  # fmt: skip
            asked.append((_key(TopicPartition(topic.topic, each.partition), item, with_ids), item))
    forgotten = [
        _key(TopicPartition(topic.topic, number), SimpleNamespace(topic_id=topic.topic_id), with_ids)  # type: ignore[arg-type]
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]
    session.apply(asked, forgotten)
    return session
