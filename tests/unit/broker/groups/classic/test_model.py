"""Members that do as they please, in any order and with any delay, against what must always hold of a group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.requests import JoinResult, LeavingMember, SyncResult
from broker.groups.classic.states import GroupState
from broker.groups.offsets.committer import Committer
from network.protocol.errors import ErrorCode as E
from tests.support.groups import Answer, Coordinator, partition

SESSION_MS, REBALANCE_MS = 6_000, 20_000
RETRY = {E.REBALANCE_IN_PROGRESS, E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID, E.NONE, E.FENCED_INSTANCE_ID}
LOST = {E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS}


@dataclass(eq=False)
class Client:
    """A client as the protocol makes it: one request in flight, the last answers it has had."""

    instance_id: str | None
    member_id: str = ""
    joined: JoinResult | None = None
    join: Answer[JoinResult] | None = None
    sync: Answer[SyncResult] | None = None
    assignment: bytes | None = None
    answers: list[Any] = field(default_factory=list)


class GroupMachine(RuleBasedStateMachine):
    """Every request is answered once and in time; a generation has one leader and one assignment; offsets only follow
    what was acknowledged; a coordinator that takes over knows what its predecessor stored."""

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator(initial_rebalance_delay_ms=100)
        self.clients: list[Client] = []
        self.committed: dict[str, int] = {}
        self.leaders: dict[int, set[str]] = {}
        self.next_offset = 0
        self.epoch = 1

    # --- what clients do ---

    @rule(static=st.booleans())
    def appear(self, static: bool) -> None:
        if len(self.clients) < 6:
            self.clients.append(Client(f"i{len(self.clients)}" if static else None))

    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        client = self._pick(data, lambda client: client.join is None and client.sync is None)
        if client is not None:
            client.join = self.coordinator.join(
                client.member_id,
                group_instance_id=client.instance_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                require_known_member_id=True,
                protocols=data.draw(st.sampled_from([(("range", b"r"),), (("range", b"r"), ("other", b"o"))])),
            )

    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        client = self._pick(data, lambda client: client.joined is not None and client.join is client.sync is None)
        if client is not None and client.joined is not None:
            joined = client.joined
            given = {row.member_id: f"{joined.generation_id}:{row.member_id}".encode() for row in joined.members}
            client.sync = self.coordinator.sync(joined, given, instance_id=client.instance_id)

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        client = self._pick(data, lambda client: client.joined is not None)
        if client is not None and client.joined is not None:
            error = self.coordinator.heartbeat(client.joined, client.instance_id)
            assert error in RETRY | LOST
            self._heed(client, error)

    @rule(data=st.data(), hold=st.booleans())
    def commit(self, data: st.DataObject, hold: bool) -> None:
        client = self._pick(data, lambda client: client.joined is not None)
        if client is None or client.joined is None:
            return
        self.next_offset += 1
        name = data.draw(st.sampled_from(["t-0", "t-1"]))
        joined = client.joined
        committer = Committer("g", joined.member_id, client.instance_id, joined.generation_id)
        answer = self.coordinator.commit({name: self.next_offset}, committer)
        error = answer.value[partition(name)]
        assert error in RETRY | LOST
        if error is E.NONE:
            self.committed[name] = self.next_offset
        self._heed(client, error)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = self._pick(data, lambda client: bool(client.member_id))
        if client is not None:
            self.coordinator.leave(LeavingMember(client.member_id, client.instance_id))
            self._forget(client)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """The process is gone; a new one with the same instance id may come."""
        client = self._pick(data, lambda client: True)
        if client is not None:
            self.clients.remove(client)
            self.clients.append(Client(client.instance_id))

    # --- what else happens ---

    @rule(ms=st.one_of(st.integers(1, 300), st.integers(1, 8_000), st.sampled_from([25_000])))
    def time_passes(self, ms: int) -> None:
        self.coordinator.advance(ms, 250)

    @rule()
    def the_coordinator_moves(self) -> None:
        self.coordinator.resign(self.epoch)
        assert all(each.join is None or each.join.done for each in self.clients), "a join is left waiting"
        assert all(each.sync is None or each.sync.done for each in self.clients), "a sync is left waiting"
        self.coordinator.elect(self.epoch + 1)
        self.epoch += 2
        assert self.coordinator.committed() == self.committed

    # --- what must hold ---

    @invariant()
    def answers_make_sense(self) -> None:
        for client in self.clients:
            if client.join is not None and client.join.done:
                self._joined(client, client.join.value)
            if client.sync is not None and client.sync.done:
                self._synced(client, client.sync.value)

    @invariant()
    def the_group_is_consistent(self) -> None:
        group = self.coordinator.owned.find_as("g", ClassicGroup)
        if group is None:
            return
        assert group.awaiting_join == sum(member.is_awaiting_join for member in group)
        assert set(group.static_members.values()) <= set(group.members)
        assert (group.leader_id is None) == (not group.members)
        assert group.leader_id is None or group.leader_id in group.members
        assert not (group.pending_members & set(group.members))
        assert group.pending_sync <= set(group.members)
        if group.is_in(GroupState.EMPTY):
            assert not group.members
        if group.is_in(GroupState.STABLE):
            assert group.members
            assert not any(member.join_callback or member.sync_callback for member in group)
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            assert not any(member.is_awaiting_join for member in group)
        # Everybody who is in the group is watched over, and nobody else.
        assert self.coordinator.heartbeats.num_delayed <= len(group.members) + len(group.pending_members)
        assert self.coordinator.committed() == self.committed

    def teardown(self) -> None:
        """Left alone, the group answers everybody, then finds that nobody lives, and nothing is left behind."""
        self.coordinator.advance(2 * REBALANCE_MS + 310_000, 1_000)
        self.answers_make_sense()
        assert all(client.join is None and client.sync is None for client in self.clients), "left waiting"
        assert self.coordinator.state() in ("Empty", "Dead")
        assert self.coordinator.heartbeats.num_delayed == 0
        assert self.coordinator.rebalances.num_delayed == 0

    # --- helpers ---

    def _pick(self, data: st.DataObject, wanted: Any) -> Client | None:
        able = [client for client in self.clients if wanted(client)]
        return data.draw(st.sampled_from(able)) if able else None

    def _forget(self, client: Client) -> None:
        client.member_id, client.joined, client.assignment = "", None, None

    def _heed(self, client: Client, error: E) -> None:
        if error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self._forget(client)
        elif error in (E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS):
            client.joined = None

    def _joined(self, client: Client, answer: JoinResult) -> None:
        client.join = None
        if answer.error is E.MEMBER_ID_REQUIRED:
            assert client.instance_id is None
            client.member_id = answer.member_id
        elif answer.error is E.NONE:
            client.member_id, client.joined = answer.member_id, answer
            self.leaders.setdefault(answer.generation_id, set()).add(answer.leader_id)
            if answer.members:
                assert answer.leader_id == answer.member_id
                assert answer.member_id in {row.member_id for row in answer.members}
        else:
            assert answer.error in RETRY | LOST | {E.INCONSISTENT_GROUP_PROTOCOL}, answer.error
            self._heed(client, answer.error)

    def _synced(self, client: Client, answer: SyncResult) -> None:
        client.sync = None
        if answer.error is E.NONE:
            client.assignment = answer.assignment
            assert client.joined is not None
            generation, _, member_id = answer.assignment.partition(b":")
            if answer.assignment:
                # A static member keeps what its predecessor had, under that one's id.
                assert int(generation) <= client.joined.generation_id
                if client.instance_id is None:
                    assert member_id.decode() == client.member_id
                    assert int(generation) == client.joined.generation_id
        else:
            assert answer.error in RETRY | LOST, answer.error
            self._heed(client, answer.error)


TestGroupModel = GroupMachine.TestCase
TestGroupModel.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
