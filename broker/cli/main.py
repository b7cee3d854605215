"""The command ``odradek``. Command groups are imported when asked for, so that a broker starts quickly."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import click

from network.version import VERSION

# name -> (module, one line for --help); the module's `command` is the click command.
COMMANDS = {
    "acls": ("broker.cli.acls", "List, add and remove access control lists."),
    "api-versions": ("broker.cli.api_versions", "Show which requests the brokers serve."),
    "bench": ("broker.cli.bench", "Measure what the cluster takes and gives."),
    "brokers": ("broker.cli.brokers", "List brokers, or drain one before it leaves."),
    "cluster": ("broker.cli.cluster", "Describe the cluster, and say how it is."),
    "completion": ("broker.cli.completion", "Print the completion script of a shell."),
    "configs": ("broker.cli.configs", "See and change configuration of brokers, topics, groups; quotas."),
    "consume": ("broker.cli.consume", "Print the records of a topic."),
    "delete-records": ("broker.cli.delete_records", "Delete records before an offset."),
    "dev": ("broker.cli.dev", "Run a local cluster of real processes."),
    "elect-leaders": ("broker.cli.elect_leaders", "Elect preferred (or unclean) leaders."),
    "get-offsets": ("broker.cli.get_offsets", "Show first, last or timed offsets."),
    "groups": ("broker.cli.groups", "Look at consumer groups and change their offsets."),
    "log": ("broker.cli.log", "Dump and verify files of a data directory."),
    "log-dirs": ("broker.cli.log_dirs", "Show log directories, their replicas and their disks."),
    "produce": ("broker.cli.produce", "Send lines of standard input to a topic."),
    "profile": ("broker.cli.profile", "Keep clusters by name: addresses, login, form of the output."),
    "reassign": ("broker.cli.reassign", "Move replicas between brokers."),
    "server": ("broker.cli.server", "Run one broker."),
    "spark": ("broker.cli.spark", "Run the Spark jobs, or package them."),
    "topics": ("broker.cli.topics", "Create, list, describe, alter and delete topics."),
    "transactions": ("broker.cli.transactions", "Look at transactions and end hanging ones."),
    "users": ("broker.cli.users", "List, set and delete users who log in by SCRAM."),
    "zookeeper": ("broker.cli.zookeeper", "Run a ZooKeeper server for development."),
}


class LazyGroup(click.Group):
    """Lists all commands but imports only the one that is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for name, (module, _) in COMMANDS.items() if importlib.util.find_spec(module))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        if importlib.util.find_spec(module) is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, COMMANDS[name][1]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


FIRST_STEPS = """\
Odradek: a Kafka-compatible message broker. To begin with:

  odradek dev                                 a cluster of three brokers, until Ctrl-C
  odradek produce TOPIC                       sends it the lines that you type
  odradek consume TOPIC --from-beginning      shows them

odradek --help lists all commands.
"""


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="odradek")
@click.pass_context
def odradek(context: click.Context) -> None:
    """Odradek: a Kafka-compatible message broker."""
    if context.invoked_subcommand is None:
        click.echo(FIRST_STEPS, nl=False)


def main() -> None:
    """Entry point: errors that a person can cure end in one line and exit code 1."""
    from broker.cli.errors import CommandError

    try:
        odradek.main(prog_name="odradek", standalone_mode=False)
    except CommandError as error:
        click.echo(f"odradek: {error}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        _show(error)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except BrokenPipeError:
        # The reader of the output has gone; nothing is left to be said.
        sys.stderr.close()
        sys.exit(1)


def _show(error: click.ClickException) -> None:
    """One line on a command line that is wrong; a group without a command shows its help."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    text = " ".join(error.format_message().split()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    where = f"; `{context.command_path} --help` shows what it takes" if context is not None else ""
    click.echo(f"odradek: {text}{where}", err=True)
