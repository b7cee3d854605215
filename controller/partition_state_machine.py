"""Moving partitions between their states, many at a time: executes `states.PARTITION_TABLE`.

An invalid transition is logged and skipped; valid ones of the same call go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from dataclasses import replace

from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.leader_election_rules import (
    Election,
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_offline,
    elect_preferred,
)
from controller.request_batch import RequestBatch
from controller.states import PARTITION_TABLE, PartitionEffect, PartitionStatus, previous_states
from controller.zk.access import ControllerMovedError
from controller.zk.client import ZkClient
from controller.zk.ops import Code
from controller.zk.payloads import PartitionState
from log.topic_partition import TopicPartition
from timer.sharing import shared

logger = logging.getLogger(__name__)

# An election rule: the current states of some partitions -> the outcome of each.
Rule = Callable[[dict[TopicPartition, PartitionState]], dict[TopicPartition, "Election | Exception"]]
Results = dict[TopicPartition, "PartitionState | Exception"]


class StateChangeFailed(Exception):
    """A transition of one partition or replica was not possible; nothing was written for it."""


class PartitionStateMachine:
    """Executes the table for the event thread."""

    def __init__(
        self,
        config: ControllerConfig,
        context: ControllerContext,
        zk: ZkClient,
        batch: RequestBatch,
        on_unclean_election: Callable[[TopicPartition], None] = lambda partition: None,
    ) -> None:
        self._config = config
        self._context = context
        self._zk = zk
        self._batch = batch
        self._on_unclean_election = on_unclean_election
        # An effect yields each partition that comes through, and that is when the partition's state is set.
        self._effects: dict[
            PartitionEffect, Callable[[Sequence[TopicPartition], Rule | None, Results], Iterator[TopicPartition]]
        ] = {
            PartitionEffect.NOTHING: lambda partitions, rule, results: iter(partitions),
            PartitionEffect.CREATE_LEADERSHIP: self._create_leadership,
            PartitionEffect.ELECT: self._elect,
        }

    # -- life of the machine -------------------------------------------------------------------------------------------

    def startup(self) -> None:
        """Derive the states from the leadership read at failover, then elect where a leader is missing."""
        context = self._context
        for partition in context.all_partitions():
            state = context.leadership.get(partition)
            if state is None:
                status = PartitionStatus.NEW
            elif context.is_replica_online(state.leader, partition):
                status = PartitionStatus.ONLINE
            else:
                status = PartitionStatus.OFFLINE
            context.set_partition_state(partition, status)
        self.trigger_online()

    def trigger_online(self, topic: str | None = None) -> Results:
        """Try to elect leaders for all New and Offline partitions (of one topic) that are not being deleted."""
        waiting = sorted(
            item
            for item in self._context.without_leader
            if item.topic not in self._context.topics_to_delete and topic in (None, item.topic)
        )
        return self.change(waiting, PartitionStatus.ONLINE, self.offline_rule())

    # -- rules ---------------------------------------------------------------------------------------------------------

    def offline_rule(self, *, force_unclean: bool = False) -> Rule:
        def rule(states: dict[TopicPartition, PartitionState]) -> dict[TopicPartition, Election | Exception]:
            context = self._context
            online = {item: context.online_replicas(item) for item in states}
            stuck = [item for item, state in states.items() if not online[item].intersection(state.isr)]
            unclean = self._unclean_allowed(stuck, force_unclean)
            outcomes: dict[TopicPartition, Election | Exception] = {}
            for item, state in states.items():
                allowed = unclean.get(item, False)
                if isinstance(allowed, Exception):
                    outcomes[item] = allowed
                    continue
                outcomes[item] = elect_offline(
                    context.assignment(item),
                    state,
                    online[item],
                    unclean_allowed=allowed,
                    record_recovery=self._config.has_leader_recovery_state,
                )
            return outcomes

        return rule

    def reassignment_rule(self) -> Rule:
        def rule(states: dict[TopicPartition, PartitionState]) -> dict[TopicPartition, Election | Exception]:
            context = self._context
            return {
                item: elect_for_reassignment(context.assignment(item), state, context.online_replicas(item))
                for item, state in states.items()
            }

        return rule

    def preferred_rule(self) -> Rule:
        def rule(states: dict[TopicPartition, PartitionState]) -> dict[TopicPartition, Election | Exception]:
            context = self._context
            return {
                item: elect_preferred(context.assignment(item), state, context.online_replicas(item))
                for item, state in states.items()
            }

        return rule

    def controlled_shutdown_rule(self) -> Rule:
        def rule(states: dict[TopicPartition, PartitionState]) -> dict[TopicPartition, Election | Exception]:
            context = self._context
            return {
                item: elect_for_controlled_shutdown(
                    context.assignment(item),
                    state,
                    context.online_replicas(item, or_shutting_down=True),
                    context.shutting_down,
                )
                for item, state in states.items()
            }

        return rule

    def _unclean_allowed(
        self, partitions: Sequence[TopicPartition], force: bool
    ) -> dict[TopicPartition, bool | Exception]:
        """Whether a leader outside the ISR may be elected; topic configs are read only for those who need it."""
        if force:
            return dict.fromkeys(partitions, True)
        topics = sorted({item.topic for item in partitions})
        if not topics:
            return {}
        default = self._config.unclean_leader_election_enable
        allowed: dict[str, bool | Exception] = {}
        try:
            for topic, config in self._zk.topic_configs(topics).items():
                text = config.get("unclean.leader.election.enable")
                allowed[topic] = default if text is None else text.strip().lower() == "true"
        except ControllerMovedError:
            raise
        except Exception as error:
            logger.exception("Could not read topic configs for an election")
            allowed = dict.fromkeys(topics, error)
        return {item: allowed[item.topic] for item in partitions}

    # -- transitions ---------------------------------------------------------------------------------------------------

    def change(
        self, partitions: Sequence[TopicPartition], target: PartitionStatus, rule: Rule | None = None
    ) -> Results:
        """Move `partitions` to `target`; for elections, the new leadership or the failure of each.

        Raises only `ControllerMovedError`. Other errors are logged and given as the result of each partition.
        """
        if not partitions:
            return {}
        try:
            with self._batch:
                return self._change(partitions, target, rule)
        except ControllerMovedError:
            raise
        except Exception as error:
            logger.exception("Moving partitions to %s failed", target.name)
            return dict.fromkeys(partitions, error)

    def _change(self, partitions: Sequence[TopicPartition], target: PartitionStatus, rule: Rule | None) -> Results:
        context = self._context
        results: Results = {}
        found: dict[PartitionEffect, list[TopicPartition]] = {}
        for partition in dict.fromkeys(partitions):
            current = context.partition_state(partition)
            effect = PARTITION_TABLE[current].get(target)
            if effect is None:
                results[partition] = self._refuse(partition, current, target)
            else:
                found.setdefault(effect, []).append(partition)
        for effect in PartitionEffect:
            if effect in found:
                for partition in self._effects[effect](found[effect], rule, results):
                    context.set_partition_state(partition, target)
        return results

    def _refuse(
        self, partition: TopicPartition, current: PartitionStatus, target: PartitionStatus
    ) -> StateChangeFailed:
        message = (
            f"Partition {partition} cannot go from {current.name} to {target.name}, "
            f"only from {previous_states(PARTITION_TABLE, target)}"
        )
        logger.error("%s", message)
        return StateChangeFailed(message)

    def _create_leadership(
        self, partitions: Sequence[TopicPartition], _: Rule | None, results: Results
    ) -> Iterator[TopicPartition]:
        context = self._context
        states: dict[TopicPartition, PartitionState] = {}
        for partition in partitions:
            live = tuple(item for item in context.replicas(partition) if context.is_replica_online(item, partition))
            if live:
                states[partition] = shared(PartitionState(live[0], 0, live, context.epoch))
            else:
                logger.error(
                    "No live replica among %s to lead new partition %s", context.replicas(partition), partition
                )
        if not states:
            return
        created = self._zk.create_partition_states(states, context.epoch_zk_version)
        there = [partition for partition, code in created.items() if code is Code.NODE_EXISTS]
        # Our own create whose answer was lost is recognised by its content, which carries our epoch.
        ours = (
            [item for item, found in self._zk.partition_states(there).items() if found == states[item]] if there else []
        )
        for partition, code in created.items():
            if code is not Code.OK and partition not in ours:
                logger.error("Could not create the state of partition %s: %s", partition, code.name)
                continue
            state = states[partition]
            context.set_leadership(partition, state)
            self._batch.add_leader_and_isr(state.isr, partition, state, context.assignment(partition), is_new=True)
            yield partition

    def _elect(
        self, partitions: Sequence[TopicPartition], rule: Rule | None, results: Results
    ) -> Iterator[TopicPartition]:
        if rule is None:
            raise ValueError("an election needs a rule")
        remaining = list(partitions)
        # Only the controller writes these, so what it knows is what is there; if not, the expected versions do not fit.
        # Where it would give up it looks: in the midst of an upgrade leaders of old still write ISRs themselves.
        known = self._known_states(remaining) if self._config.uses_alter_partition else {}
        while remaining:
            unknown = [partition for partition in remaining if partition not in known]
            states = {**known, **self._current_states(unknown, results)} if unknown else known
            remaining = yield from self._elect_once(states, known, rule, results)
            known = {}
        failed = {str(item): str(results[item]) for item in partitions if isinstance(results.get(item), Exception)}
        if failed:
            logger.warning("No leader was elected for: %s", failed)

    def _elect_once(
        self,
        states: dict[TopicPartition, PartitionState],
        not_read: Container[TopicPartition],
        rule: Rule,
        results: Results,
    ) -> Generator[TopicPartition, None, list[TopicPartition]]:
        """Decide and write; returns the partitions whose state in ZooKeeper is another one by now, or may be."""
        context = self._context
        elections = rule(states) if states else {}
        chosen: dict[TopicPartition, Election] = {}
        writes: dict[TopicPartition, PartitionState] = {}
        retry: list[TopicPartition] = []
        for partition, outcome in elections.items():
            if isinstance(outcome, Exception):
                results[partition] = outcome
            elif outcome.state is None and partition in not_read:
                retry.append(partition)
            elif outcome.state is None:
                results[partition] = StateChangeFailed(
                    f"No replica of {partition} can become leader: {states[partition]}, "
                    f"assigned {context.replicas(partition)}, live {sorted(context.live_ids)}"
                )
            else:
                chosen[partition] = outcome
                writes[partition] = replace(outcome.state, controller_epoch=context.epoch)
        for partition, written in self._zk.set_partition_states(writes, context.epoch_zk_version).items():
            if isinstance(written, PartitionState):
                self._elected(partition, written, chosen[partition])
                results[partition] = written
                yield partition
            elif written is Code.BAD_VERSION:
                retry.append(partition)
            else:
                results[partition] = StateChangeFailed(f"Could not write the state of {partition}: {written.name}")
        return retry

    def _elected(self, partition: TopicPartition, state: PartitionState, election: Election) -> None:
        context = self._context
        if election.unclean:
            logger.warning("Unclean election of %d for %s: records may be lost", state.leader, partition)
            self._on_unclean_election(partition)
        context.set_leadership(partition, state)
        self._batch.add_leader_and_isr(
            election.recipients, partition, state, context.assignment(partition), is_new=False
        )

    def _known_states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        leadership = self._context.leadership
        return {partition: leadership[partition] for partition in partitions if partition in leadership}

    def _current_states(
        self, partitions: Iterable[TopicPartition], failures: Results
    ) -> dict[TopicPartition, PartitionState]:
        """Fresh states from ZooKeeper of those partitions on which this controller may still decide."""
        wanted = list(partitions)
        found = self._zk.partition_states(wanted)
        usable: dict[TopicPartition, PartitionState] = {}
        for partition in wanted:
            state = found.get(partition)
            if state is None:
                failures[partition] = StateChangeFailed(f"{partition} has no state in ZooKeeper")
            elif state.controller_epoch > self._context.epoch:
                failures[partition] = StateChangeFailed(
                    f"The state of {partition} was written by controller epoch {state.controller_epoch}, "
                    f"newer than {self._context.epoch}"
                )
            else:
                usable[partition] = state
        return usable
