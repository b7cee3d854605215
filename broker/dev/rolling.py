"""``python -m broker.dev.rolling``: brokers of a compose cluster are replaced one by one, by what the files now say.

A rolling upgrade, where the image is another one; a migration, where the containers that run are Apache Kafka's and the
files' are ours. The controller is last, and the next broker's turn comes when all replicas are in sync again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import click

from broker.cli.client import cluster, servers_option

GRACE_S = "60"
"""For a controlled shutdown; the same as `stop_grace_period` of the compose files."""
OWNER = "data-owner"
"""The service that gives a volume to the user that brokers run as."""


@click.command()
@servers_option
@click.option("--broker", "only", multiple=True, type=int, metavar="ID", help="Only these; all without it.")
@click.option("--own-data", is_flag=True, help="The volumes belong to another user until now.")
@click.option("--wait-ms", default=300_000, show_default=True, type=click.IntRange(1), help="For each to be in sync.")
@click.argument("compose", nargs=-1, required=True)
def main(bootstrap_server: str, only: tuple[int, ...], own_data: bool, wait_ms: int, compose: tuple[str, ...]) -> None:
    """Replace the containers broker-ID of a project. COMPOSE is the compose command with its files, after `--`.

    It stops with what the failing command said: the brokers that are left are as they were.
    """
    with cluster(bootstrap_server) as client:
        seen = client.metadata([])
    brokers = len(seen.brokers)
    _await(bootstrap_server, brokers, wait_ms)
    chosen = only or tuple(seen.brokers)
    for number in sorted(chosen, key=lambda broker: (broker == seen.controller_id, broker)):
        service = f"broker-{number}"
        click.echo(f"{service} is replaced", err=True)
        # Not by `up` alone: docker-compose 1.29 cannot recreate a container of today's engines.
        _run([*compose, "stop", "-t", GRACE_S, service])
        _run([*compose, "rm", "-f", "-v", service])
        if own_data:
            _run([*compose, "run", "--rm", "--no-deps", OWNER, f"/data/{service}"])
        _run([*compose, "up", "-d", "--no-deps", "--no-build", service])
        _await(bootstrap_server, brokers, wait_ms)
    _run([sys.executable, "-m", "broker", "elect-leaders", "--all", "-b", bootstrap_server])
    _await(bootstrap_server, brokers, wait_ms)
    click.echo(f"replaced: {len(chosen)} brokers, one by one", err=True)


def _await(bootstrap_server: str, brokers: int, wait_ms: int) -> None:
    """All run and all is in sync. Full disks and who leads are no reason to stop half-way."""
    limits = ["--disk-warning", "101", "--disk-critical", "101", "--skew-warning", "100", "--brokers", str(brokers)]
    health = [sys.executable, "-m", "broker", "cluster", "health", "-b", bootstrap_server, *limits]
    _run([*health, "--wait-ms", str(wait_ms)])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        shown = f"{done.stdout}{done.stderr}".strip()
        sys.exit(f"odradek: {' '.join(command)} ended with {done.returncode}:\n{shown}")


if __name__ == "__main__":
    main()
