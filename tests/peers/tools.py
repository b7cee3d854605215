"""Kafka's shell tools by the names of their scripts, run from its jars, for suites that call them."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.reference import kafka

TOOLS = {
    "kafka-acls.sh": "kafka.admin.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "kafka.tools.ConsoleProducer",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-verifiable-consumer.sh": "org.apache.kafka.tools.VerifiableConsumer",
}


def tools(directory: Path) -> Path:
    """The folder ``bin`` with a script of each."""
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    for name, main_class in TOOLS.items():
        command = shlex.join(kafka.java_command(kafka.require(), main_class, tool=True))
        script(programs / name, f'exec {command} "$@"')
    return programs


def script(path: Path, text: str) -> None:
    """A program for the shell."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
