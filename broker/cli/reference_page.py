"""`docs/commands.md`: every command with its options, from the parser. Run as a module, it writes the page to standard
output."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

import click

from broker.cli.main import COMMANDS, odradek

_HEAD = """\
# Commands

Written by `python -m broker.cli.reference_page > docs/commands.md`; do not edit.

Options are called as in Kafka's own tools where those have them. `-h` after any command shows what stands here.

**Which cluster?** Commands that talk to a cluster have the options `--bootstrap-server` and `--profile`. The first of
these that says something counts:

1. `--bootstrap-server HOST:PORT,...` (or `-b`), or `--profile NAME`
2. the variable `ODRADEK_BOOTSTRAP_SERVERS` (also in the singular)
3. the variable `ODRADEK_PROFILE`, the name of a profile
4. the `default` of the profile file
5. the one `odradek dev` that runs on this machine

In the last three cases, and with `--profile`, the command says on standard error which cluster it talks to. The profile
file is `~/.config/odradek/profiles.toml` (below `XDG_CONFIG_HOME`, if that is set), or the one that `ODRADEK_PROFILES`
names:

```toml
default = "staging"

[staging]
bootstrap-server = "kafka-1:9092,kafka-2:9092"
command-config = "staging.properties"
output = "json"
```

A profile's file of `command-config`, seen from the profile file, and its `output` hold where the command line has
neither of them. `odradek profile set`, `list` and `delete` keep the file.

`--command-config FILE` (or the variable `ODRADEK_COMMAND_CONFIG`) says how to log in, in the keys of Kafka's Java
clients: `security.protocol`, `sasl.mechanism`, `sasl.jaas.config`, `ssl.*`. `--request-timeout-ms` (15000) is how long
brokers have to answer before the command gives up.

**For programs.** The same commands have `--output table|json|yaml`, and `--json` for short. Commands that show or do
several things write one list of objects, `cluster` and `bench` one object, and those that go on
and on (`consume`, `log dump`, `log verify`) an object a line, or a YAML document each. Sizes and times are plain
numbers there, and what is not known is null. Errors are a line on standard error in every form.

**Exit codes.** 0: done. 1: it could not be done, or not all of it; the line on standard error says why. 2: the command
line, a file that it names, or the configuration is wrong, and nothing was tried. 130: Ctrl-C. `cluster health` has
codes of its own. [errors.md](errors.md) lists mistakes, what is said of them, and the code.

**Environment variables.**

| variable | |
|---|---|
{variables}

**Completion.** `odradek completion bash`, `zsh` or `fish` prints what the shell has to read.
"""

VARIABLES = {
    "ODRADEK_BOOTSTRAP_SERVERS": "Brokers that commands and Spark jobs start from. Also without the last S.",
    "ODRADEK_PROFILE": "The profile that says the cluster.",
    "ODRADEK_PROFILES": "The file of the profiles.",
    "ODRADEK_COMMAND_CONFIG": "The file of `--command-config`; a profile's own counts more.",
    "ODRADEK_DISK_WARNING": "`--disk-warning` of `cluster health`.",
    "ODRADEK_DISK_CRITICAL": "`--disk-critical` of `cluster health`.",
    "ODRADEK_ZOOKEEPER_LIBS": "The folder of the jars for `odradek zookeeper --java`, in place of pyspark's.",
    "XDG_CONFIG_HOME": "Below it the profile file is looked for.",
    "XDG_STATE_HOME": "Below it `odradek dev` notes where it runs, for the other commands.",
    "JAVA_HOME": "The Java of `odradek zookeeper --java` and of Spark jobs.",
}

# Said once, above.
_COMMON = {"bootstrap_server", "profile", "request_timeout_ms", "command_config", "output_form", "output_json", "help"}


def page() -> str:
    """The whole page."""
    variables = "\n".join(f"| `{name}` | {text} |" for name, text in VARIABLES.items())
    parts = [_HEAD.replace("{variables}", variables)]
    context = click.Context(odradek, info_name="odradek")
    for name in sorted(COMMANDS):
        command = odradek.get_command(context, name)
        assert command is not None
        parts.append(f"\n## {name}\n")
        parts.extend(_sections(command, click.Context(command, context, info_name=name)))
    return "\n".join(line.rstrip() for line in "".join(parts).split("\n"))


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield f"\n{_described(command, context)}"
        return
    yield f"\n{_help(command)}\n"
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        if not inner.hidden:
            yield f"\n### {context.info_name} {name}\n"
            yield f"\n{_described(inner, click.Context(inner, context, info_name=name))}"


def _described(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = f"`{usage}`\n\n{_help(command)}\n"
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    own = [each for each in options if each.name not in _COMMON]
    rows = [f"| `{_names(each, context)}` | {_option_help(each, context)} |" for each in own]
    if rows:
        text += "\n| option | |\n|---|---|\n" + "".join(f"{row}\n" for row in rows)
    if len(own) < len(options):
        text += f"\nAlso {_listed(_common(options))}.\n"
    return text


def _common(options: Iterable[click.Option]) -> list[str]:
    return [f"`{each.opts[0]}`" for each in options if each.name in _COMMON]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _help(command: click.Command) -> str:
    """Paragraphs as they are; one that begins with a backspace character keeps its lines."""
    paragraphs = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            paragraphs.append("\n".join(f"    {line}" for line in paragraph.split("\n")[1:]))
        else:
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def _names(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    return record[0].replace("INTEGER RANGE", "N").replace("INTEGER", "N").replace("|", "\\|")


def _option_help(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    return record[1].replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    print(page(), end="")
