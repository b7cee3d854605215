"""``odradek configs``: the configuration of topics, brokers, groups and client metrics, and the quotas of clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.config_changes import HIDDEN, Value, change, configs_of, quotas_of
from broker.cli.config_entities import Entity, chosen, entity_options
from broker.cli.config_texts import add_config, key_value, properties
from broker.cli.errors import CommandError
from broker.cli.output import line, listing, say
from broker.config.admin import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
)
from network.client.cluster_client import ClusterClient
from network.protocol.messages.list_client_metrics_resources import ListClientMetricsResourcesRequest
from network.protocol.messages.list_groups import ListGroupsRequest

dry_run_option = click.option("--dry-run", is_flag=True, help="Let the broker check it, show it, change nothing.")


@click.group("configs")
def command() -> None:
    """See and change configuration, while the cluster runs."""


@command.command("describe")
@entity_options
@bootstrap_option
@click.option("--all", "every", is_flag=True, help="Defaults and values of the file too, not only what was set.")
def describe_(bootstrap_server: str, every: bool, **choice: Any) -> None:
    """What is set for an entity, or without its name for every entity of the type."""
    entity = chosen(choice)
    with cluster(bootstrap_server) as client:
        found = quotas_of(client, entity) if entity.has_quotas else _described(client, entity)
    shown = {
        name: values if every or entity.kind.resource == LOGGER_RESOURCE else [each for each in values if each.own]
        for name, values in found.items()
    }
    facts = [_facts(name, value) for name, values in shown.items() for value in values]
    listing(facts, lambda: _print(shown))


def _described(client: ClusterClient, entity: Entity) -> dict[str, list[Value]]:
    names = [entity.name] if entity.name is not None else _all_names(client, entity)
    return {str(_named(entity, name)): configs_of(client, entity, name) for name in names}


def _named(entity: Entity, name: str) -> str:
    if name:
        return f"{entity.kind.singular} {name}"
    return f"the default of {entity.kind.name}"


def _all_names(client: ClusterClient, entity: Entity) -> list[str]:
    kind = entity.kind
    if kind.resource == TOPIC_RESOURCE:
        return sorted(client.metadata().topics)
    if kind.resource in (BROKER_RESOURCE, LOGGER_RESOURCE):
        brokers = [str(each) for each in sorted(client.brokers())]
        return [*brokers, ""] if kind.resource == BROKER_RESOURCE else brokers
    if kind.resource == GROUP_RESOURCE:
        listed = [client.call_broker(each, ListGroupsRequest()).groups for each in client.brokers()]
        return sorted(group.group_id for groups in listed for group in groups)
    if kind.resource == CLIENT_METRICS_RESOURCE:
        subscriptions = client.call_any(ListClientMetricsResourcesRequest())
        if subscriptions.error_code:
            raise CommandError(f"{entity}: {describe(subscriptions.error_code, None)}")
        return sorted(each.name for each in subscriptions.client_metrics_resources)
    raise CommandError(f"give the name of the {kind.singular} with --entity-name", exit_code=2)


def _facts(entity: str, value: Value) -> dict[str, object]:
    return {
        "entity": entity,
        "key": value.key,
        "value": value.shown,
        "source": value.source,
        "read_only": value.read_only,
        "sensitive": value.sensitive,
        "without_it": value.below,
    }


def _print(found: Mapping[str, list[Value]]) -> None:
    for name, values in found.items():
        if not values:
            click.echo(f"Nothing is set for {name}.")
            continue
        click.echo(f"{name}:")
        for value in values:
            below = f", {value.below} without it" if value.own and value.below is not None else ""
            read_only = ", read-only" if value.read_only else ""
            click.echo(f"  {value.key}={value.shown}  ({value.source}{below}{read_only})")
    if not found:
        click.echo("Nothing is set.")


@command.command("set")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@entity_options
@bootstrap_option
@click.option("--add-config", "added", multiple=True, metavar="K=V,K=[V,V]", help="As Kafka's tool takes it.")
@click.option(
    "--add-config-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file of KEY=VALUE lines."
)
@dry_run_option
def set_(
    pairs: tuple[str, ...],
    bootstrap_server: str,
    added: tuple[str, ...],
    add_config_file: Path | None,
    dry_run: bool,
    **choice: Any,
) -> None:
    """Set configs or quotas of one entity, and show what changes."""
    wanted: dict[str, str | None] = {}
    if add_config_file is not None:
        wanted.update(properties(add_config_file))
    for text in added:
        wanted.update(add_config(text))
    wanted.update(key_value(text) for text in pairs)
    if not wanted:
        raise CommandError("nothing to set: give KEY=VALUE, --add-config or --add-config-file", exit_code=2)
    _change(bootstrap_server, chosen(choice), wanted, dry_run)


@command.command("delete")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@entity_options
@bootstrap_option
@click.option("--delete-config", "deleted", multiple=True, metavar="K,K", help="As Kafka's tool takes it.")
@dry_run_option
def delete(
    keys: tuple[str, ...], bootstrap_server: str, deleted: tuple[str, ...], dry_run: bool, **choice: Any
) -> None:
    """Delete configs or quotas that were set for one entity, and show what holds then."""
    wanted = [*keys, *(key.strip() for text in deleted for key in text.split(","))]
    if not wanted or not all(wanted):
        raise CommandError("nothing to delete: give KEY or --delete-config", exit_code=2)
    _change(bootstrap_server, chosen(choice), dict.fromkeys(wanted), dry_run)


def _change(bootstrap_server: str, entity: Entity, wanted: dict[str, str | None], dry_run: bool) -> None:
    if not entity.is_one:
        raise CommandError(f"changes are for one entity, not for {entity}: give --entity-name", exit_code=2)
    with cluster(bootstrap_server) as client:
        before = _before(client, entity)
        # A request that is wrong in one key shall change no other, on brokers of any kind.
        change(client, entity, wanted, validate_only=True)
        if not dry_run:
            change(client, entity, wanted, validate_only=False)
    changes = [_show_change(entity, key, before.get(key), value, dry_run) for key, value in wanted.items()]
    line(f"Nothing was changed in {entity}." if dry_run or not any(changes) else f"Changed {entity}.")


def _before(client: ClusterClient, entity: Entity) -> dict[str, Value]:
    if entity.has_quotas:
        return {value.key: value for values in quotas_of(client, entity).values() for value in values}
    return {value.key: value for value in configs_of(client, entity, entity.name or "")}


def _show_change(entity: Entity, key: str, before: Value | None, value: str | None, dry_run: bool) -> bool:
    """Whether it is one: `- key=old` and `+ key=new`; a line with a space in front where nothing changes."""
    old = None if before is None else before.shown
    new = value if value is not None else None if before is None else before.below if before.own else before.value
    sensitive = before is not None and before.sensitive
    if sensitive:
        old, new = (HIDDEN if old is not None else None), (HIDDEN if value is not None else None)
    own = before is not None and before.own
    lines = []
    same = old == new and not sensitive and own == (value is not None)
    if same:
        lines = [f"  {key}={new}" if new is not None else f"  {key} is not set"]
    else:
        if old is not None:
            lines.append(f"- {key}={old}{'' if own else '  (not set here)'}")
        if new is not None:
            lines.append(f"+ {key}={new}{'' if value is not None else '  (not set here)'}")
        elif own:
            lines.append(f"+ {key} has its default again")
    facts = {"entity": str(entity), "key": key, "before": old, "after": new, "applied": not dry_run}
    say("\n".join(lines), **facts)
    return not same
