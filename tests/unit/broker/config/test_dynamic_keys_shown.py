"""Every broker key that can be changed at run time has a test that shows what the change does, or a reason for none."""

from __future__ import annotations

import re

import pytest

from broker.config.broker_keys import BROKER_KEYS
from broker.config.keys import UpdateMode
from tests.support.paths import ROOT

EFFECTS = "tests/contract/test_dynamic_effects.py"
THREADS = "tests/cluster/test_dynamic_threads_and_limits.py"
SASL = "tests/contract/test_sasl_dynamic.py"
TLS = "tests/contract/test_tls.py"
LISTENER = f"{TLS}::test_a_listener_comes_and_goes_while_the_broker_runs"
CERTIFICATE = f"{TLS}::test_a_certificate_is_replaced_while_clients_are_connected"
DEFAULTS = f"{EFFECTS}::test_defaults_of_topics"
PACKED = f"{EFFECTS}::test_batches_are_compressed_harder"
FLUSHED = f"{EFFECTS}::test_logs_are_forced_to_disk"
CLEANED = f"{EFFECTS}::test_when_a_log_is_cleaned"
KEYS_AT_ONCE = f"{EFFECTS}::test_how_many_keys_are_cleaned_at_once"
PASSWORDS = "tests/cluster/test_dynamic_passwords.py::test_passwords_are_handed_on"
KERBEROS = "tests/contract/test_kerberos.py"
PEERS = "tests/unit/broker/security/test_peer_logins.py"
REFRESHED = f"{PEERS}::test_the_next_token_is_got_when_the_values_of_now_say_so"
VARIED = f"{PEERS}::test_a_part_of_the_time_varies"
REPLICATION = "tests/contract/test_dynamic_replication.py"
ALONE = f"{REPLICATION}::test_a_leader_alone_and_a_broker_that_was_not_in_sync"
TRUSTED = f"{TLS}::test_who_is_trusted_is_changed_while_the_broker_runs"
SECURED = f"{TLS}::test_a_listener_is_secured_by_dynamic_configs_alone"

SHOWN = {
    "advertised.listeners": LISTENER,
    "background.threads": f"{THREADS}::test_background_tasks_run_on_as_many_threads",
    "compression.gzip.level": PACKED,
    "compression.lz4.level": PACKED,
    "compression.type": f"{EFFECTS}::test_batches_are_compressed_and_stamped",
    "compression.zstd.level": PACKED,
    "follower.replication.throttled.rate": "tests/cluster/test_reassignment.py::test_a_move_is_cancelled_half_way",
    "leader.replication.throttled.rate": "tests/cluster/test_reassignment.py::test_a_move_is_cancelled_half_way",
    "listener.security.protocol.map": LISTENER,
    "listeners": LISTENER,
    "log.cleaner.backoff.ms": f"{EFFECTS}::test_the_cleaner_works_on",
    "log.cleaner.dedupe.buffer.size": KEYS_AT_ONCE,
    "log.cleaner.delete.retention.ms": f"{EFFECTS}::test_how_long_tombstones_stay",
    "log.cleaner.io.buffer.load.factor": KEYS_AT_ONCE,
    "log.cleaner.io.buffer.size": f"{THREADS}::test_the_cleaner_reads_as_much_at_once",
    "log.cleaner.io.max.bytes.per.second": f"{EFFECTS}::test_how_fast_logs_are_cleaned",
    "log.cleaner.max.compaction.lag.ms": CLEANED,
    "log.cleaner.min.cleanable.ratio": CLEANED,
    "log.cleaner.min.compaction.lag.ms": CLEANED,
    "log.cleaner.threads": f"{THREADS}::test_threads_come_and_go",
    "log.cleanup.policy": DEFAULTS,
    "log.flush.interval.messages": FLUSHED,
    "log.flush.interval.ms": FLUSHED,
    "log.index.interval.bytes": DEFAULTS,
    "log.index.size.max.bytes": DEFAULTS,
    "log.message.downconversion.enable": DEFAULTS,
    "log.message.timestamp.after.max.ms": DEFAULTS,
    "log.message.timestamp.before.max.ms": DEFAULTS,
    "log.message.timestamp.difference.max.ms": DEFAULTS,
    "log.message.timestamp.type": f"{EFFECTS}::test_batches_are_compressed_and_stamped",
    "log.preallocate": DEFAULTS,
    "log.retention.bytes": f"{EFFECTS}::test_segments_roll_and_old_ones_go",
    "log.retention.ms": f"{EFFECTS}::test_records_are_kept_for_a_time",
    "log.roll.jitter.ms": DEFAULTS,
    "log.roll.ms": DEFAULTS,
    "log.segment.bytes": f"{EFFECTS}::test_segments_roll_and_old_ones_go",
    "log.segment.delete.delay.ms": f"{EFFECTS}::test_segments_roll_and_old_ones_go",
    "max.connection.creation.rate": f"{THREADS}::test_new_connections_are_slowed_down",
    "max.connections": f"{THREADS}::test_connections_are_limited",
    "max.connections.per.ip": f"{EFFECTS}::test_connections_of_one_address_are_limited",
    "max.connections.per.ip.overrides": f"{EFFECTS}::test_connections_of_one_address_are_limited",
    "message.max.bytes": f"{EFFECTS}::test_large_batches_are_refused",
    "min.insync.replicas": ALONE,
    "num.io.threads": f"{THREADS}::test_threads_come_and_go",
    "num.network.threads": f"{THREADS}::test_threads_come_and_go",
    "num.recovery.threads.per.data.dir": f"{THREADS}::test_logs_are_closed_by_as_many_threads",
    "num.replica.fetchers": f"{REPLICATION}::test_how_many_fetch_from_a_leader",
    "producer.id.expiration.ms": f"{EFFECTS}::test_producers_are_forgotten",
    "replica.alter.log.dirs.io.max.bytes.per.second":
        "tests/contract/test_log_dirs.py::test_a_slow_move_is_seen_is_cancelled_and_survives_a_restart",
    "sasl.enabled.mechanisms": f"{SASL}::test_mechanisms_of_all_listeners_are_those_of_new_ones",
    "sasl.jaas.config": f"{SASL}::test_a_listener_with_a_login_is_added",
    "sasl.kerberos.principal.to.local.rules":
        f"{KERBEROS}::test_rules_that_are_changed_are_those_of_listeners_that_are_added",
    "sasl.kerberos.service.name": f"{KERBEROS}::test_our_brokers_ask_for_tickets_of_the_service_that_holds",
    "sasl.login.refresh.buffer.seconds": REFRESHED,
    "sasl.login.refresh.min.period.seconds": REFRESHED,
    "sasl.login.refresh.window.factor": REFRESHED,
    "sasl.login.refresh.window.jitter": VARIED,
    "sasl.mechanism.inter.broker.protocol":
        "tests/cluster/test_sasl_mixed.py::test_brokers_log_in_to_each_other_by_another_mechanism",
    "ssl.cipher.suites": SECURED,
    "ssl.client.auth": SECURED,
    "ssl.enabled.protocols": SECURED,
    "ssl.endpoint.identification.algorithm":
        "tests/unit/broker/security/test_peer_tls.py::test_whether_a_broker_s_name_is_compared_is_what_holds_now",
    "ssl.key.password": PASSWORDS,
    "ssl.keystore.certificate.chain": SECURED,
    "ssl.keystore.key": SECURED,
    "ssl.keystore.location": CERTIFICATE,
    "ssl.keystore.password": PASSWORDS,
    "ssl.keystore.type": SECURED,
    "ssl.truststore.certificates": TRUSTED,
    "ssl.truststore.location": TRUSTED,
    "ssl.truststore.password": TRUSTED,
    "ssl.truststore.type": SECURED,
    "transaction.partition.verification.enable": f"{EFFECTS}::test_partitions_of_transactions_are_verified",
    "unclean.leader.election.enable": ALONE,
}  # fmt: skip


_TIERED = "there is no tiered storage, so nothing can show"
_CLASSES = "no class of Java's is loaded, so nothing can show"
_TICKETS = "the Kerberos library renews tickets in its own way, so nothing can show"

NOT_SHOWN = {
    "log.local.retention.bytes": _TIERED,
    "log.local.retention.ms": _TIERED,
    "metric.reporters": _CLASSES,
    "principal.builder.class": _CLASSES,
    "remote.fetch.max.wait.ms": _TIERED,
    "remote.log.index.file.cache.total.size.bytes": _TIERED,
    "remote.log.manager.copy.max.bytes.per.second": _TIERED,
    "remote.log.manager.fetch.max.bytes.per.second": _TIERED,
    "sasl.kerberos.kinit.cmd": _TICKETS,
    "sasl.kerberos.min.time.before.relogin": _TICKETS,
    "sasl.kerberos.ticket.renew.jitter": _TICKETS,
    "sasl.kerberos.ticket.renew.window.factor": _TICKETS,
    "ssl.engine.factory.class": _CLASSES,
    "ssl.keymanager.algorithm": _CLASSES,
    "ssl.protocol": "not honoured: ssl.enabled.protocols says which versions are served",
    "ssl.provider": _CLASSES,
    "ssl.secure.random.implementation": _CLASSES,
    "ssl.trustmanager.algorithm": _CLASSES,
}


def test_no_key_is_forgotten() -> None:
    dynamic = {key.name for key in BROKER_KEYS.values() if key.mode is not UpdateMode.READ_ONLY}
    assert SHOWN.keys() & NOT_SHOWN.keys() == set()
    assert SHOWN.keys() | NOT_SHOWN.keys() == dynamic


@pytest.mark.parametrize("key", SHOWN)
def test_its_test_is_there_and_names_the_key(key: str) -> None:
    file, _, test = SHOWN[key].partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert f"\ndef {test}(" in text
    assert re.search(rf"{re.escape(key)}\b|\b{key.replace('.', '_')}=|\.{re.escape(key)}", text)
