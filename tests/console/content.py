"""What the cluster of these tests holds: topics with records, groups, transactions, and names that mean harm."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cluster import Cluster
from timer.clock import SystemClock

TOPICS = {"orders": 6, "payments": 3, "clicks": 3, "inventory.changes": 1}
RECORDS = 400
HARM = '<img src=x onerror="document.title=\'run\'"><script>document.title="run"</script>'
"""Does something that a test sees if it is ever taken for markup."""
SECRET = "javascript:document.title='run'"
APART_MS = 250
OPEN_TRANSACTION = "payments-writer-2"


def is_late(name: str, number: int) -> bool:
    """The clock of who writes to the second partition of clicks was set back by a minute."""
    return name == "clicks" and number % 3 == 1 and number >= 90


def fill(cluster: Cluster) -> None:
    """All of it."""
    bootstrap: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap}
    admin = AdminClient(bootstrap)
    wanted = [NewTopic(name, partitions, 3) for name, partitions in {**TOPICS, "hostile": 1}.items()]
    for made in admin.create_topics(wanted).values():
        made.result(60)
    for name, partitions in {**TOPICS, "hostile": 1}.items():
        cluster.wait_topic(name, partitions)
    _produce(bootstrap)
    for group, client_id in (("billing", "billing-1"), (HARM, HARM)):
        _consume(bootstrap, group, client_id)
    for number, (name, ends) in enumerate({"payments-writer-1": True, OPEN_TRANSACTION: False, HARM: True}.items()):
        _transaction(bootstrap, name, number, ends)


def _produce(bootstrap: dict[str, Any]) -> None:
    # Without idempotence, a batch that is tried again would come behind a later one.
    producer = Producer({**bootstrap, "enable.idempotence": True})
    began = SystemClock().wall_ms() - RECORDS * APART_MS
    for number in range(RECORDS):
        value = {
            "id": number,
            "customer": f"c-{number % 50}",
            "amount": number * 0.37 % 200,
            "items": [{"sku": f"S-{number % 13}", "count": number % 4}],
        }
        for name, partitions in (("orders", 6), ("clicks", 3)):
            producer.produce(
                name,
                key=f"{name}-{number % 97}",
                value=json.dumps(value),
                partition=number % partitions,
                headers={"trace": f"{number:08x}", "source": "web"},
                timestamp=began + number * APART_MS - (60_000 if is_late(name, number) else 0),
            )
    for harm in (HARM, json.dumps({HARM: HARM, "__proto__": {"run": True}}), SECRET):
        producer.produce("hostile", key=HARM, value=harm, headers={HARM: HARM})
    producer.produce("hostile", key=b"\xff\xfe\x00", value=bytes(range(256)))
    producer.produce("hostile", key=None, value=None)
    assert producer.flush(60) == 0


def _consume(bootstrap: dict[str, Any], group: str, client_id: str) -> None:
    consumer = Consumer(
        {**bootstrap, "group.id": group, "client.id": client_id, "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe(["orders"])
    seen = 0
    while seen < RECORDS // 4:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        seen += 1
    consumer.commit(asynchronous=False)
    consumer.close()


def _transaction(bootstrap: dict[str, Any], name: str, number: int, ends: bool) -> None:
    producer = Producer({**bootstrap, "transactional.id": name, "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("payments", value=f"payment {number}", partition=number)
    producer.flush(60)
    if ends:
        producer.commit_transaction(60)
