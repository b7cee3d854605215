"""What commands show: tables and lines for a person, JSON or YAML for a program (``--output``, ``--json``).

A command says what it has found or done through `rows`, `say`, `document` or `item`, and does not ask which form was
chosen. `rows` and `say` give a program one list of objects, written when the command ends; `document` gives it one
object; `item` writes each object at once, a line of JSON or a document of YAML, for commands that go on and on. Notes
for a person (`note`) go to standard error, and are left out for programs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from broker.cli.table import print_table
from broker.cli.yaml_text import to_yaml

F = TypeVar("F", bound=Callable[..., Any])

FORMS = ("table", "json", "yaml")
_FORM = "odradek.output.form"
_SAID = "odradek.output.said"
_LIST = "odradek.output.list"
_WRITTEN = "odradek.output.written"


def output_option(function: F) -> F:
    """``--output table|json|yaml`` and ``--json``, which is short for ``--output json``."""
    function = click.option(
        "--json",
        "output_json",
        is_flag=True,
        expose_value=False,
        callback=lambda context, _, given: _choose(context, "json", said=True) if given else None,
        help="The same as --output json.",
    )(function)
    return click.option(
        "--output",
        "output_form",
        type=click.Choice(FORMS),
        default="table",
        show_default=True,
        expose_value=False,
        is_eager=True,  # so that --json, wherever it stands, has the last word
        callback=lambda context, parameter, form: _choose(context, form, said=_is_said(context, parameter)),
        help="For a person, or for a program.",
    )(function)


def prefer(context: click.Context, form: str) -> None:
    """The form of a command whose line says none; nothing where a command has no forms."""
    if _FORM in context.meta and not context.meta[_SAID]:
        context.meta[_FORM] = form


def _is_said(context: click.Context, parameter: click.Parameter) -> bool:
    return context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE


def _choose(context: click.Context, form: str, *, said: bool) -> None:
    if _FORM not in context.meta:
        context.call_on_close(lambda: _finish(context))
    context.meta[_FORM] = form
    context.meta[_SAID] = said


def _finish(context: click.Context) -> None:
    """Write the list, also of a command that failed half-way; an empty one only of a command that did not fail."""
    found = context.meta.get(_LIST)
    nothing = not found and _WRITTEN not in context.meta and sys.exc_info()[0] is None
    if context.meta[_FORM] != "table" and (found or nothing):
        click.echo(_written(found or [], context.meta[_FORM]), nl=False)


def is_for_people() -> bool:
    """Whether tables and lines are wanted."""
    context = click.get_current_context(silent=True)
    return context is None or context.meta.get(_FORM, "table") == "table"


def rows(heads: Sequence[str], values: Sequence[Sequence[object]]) -> None:
    """A table, or an object a row whose keys are the heads in small letters. None is shown as ``-``."""
    if is_for_people():
        print_table(heads, [["-" if value is None else value for value in row] for row in values])
        return
    keys = [_key(head) for head in heads]
    found = _collected()
    found.extend(dict(zip(keys, row, strict=True)) for row in values)


def _key(head: str) -> str:
    """`LOG-END-OFFSET` is log_end_offset, `ProducerId` producer_id."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", head)
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def say(text: str, **facts: object) -> None:
    """A line, or an object with the facts."""
    if is_for_people():
        click.echo(text)
    else:
        _collected().append(facts)


def document(value: Mapping[str, object], as_text: Callable[[], object]) -> None:
    """What `as_text` prints, or one object."""
    if is_for_people():
        as_text()
    else:
        click.echo(_written(value, _own_form()), nl=False)


def listing(values: Sequence[Mapping[str, object]], as_text: Callable[[], object]) -> None:
    """What `as_text` prints, or a list of objects."""
    if is_for_people():
        as_text()
    else:
        _collected().extend(values)


def item(text: str, facts: Mapping[str, object]) -> None:
    """One of many, written at once: a line of text, a line of JSON, or a document of YAML."""
    if is_for_people():
        click.echo(text)
    elif _own_form() == "json":
        click.echo(json.dumps(facts, ensure_ascii=False, default=str))
    else:
        click.echo(f"---\n{to_yaml(facts)}", nl=False)


def line(text: str) -> None:
    """For a person only, on standard output."""
    if is_for_people():
        click.echo(text)


def note(text: str) -> None:
    """For a person only, on standard error."""
    if is_for_people():
        click.echo(text, err=True)


def _own_form() -> str:
    """The form of a command that writes for itself."""
    meta = click.get_current_context().meta
    meta[_WRITTEN] = True
    form: str = meta[_FORM]
    return form


def _collected() -> list[Any]:
    """The list that is written when the command ends."""
    found: list[Any] = click.get_current_context().meta.setdefault(_LIST, [])
    return found


def _written(value: object, form: str) -> str:
    if form == "yaml":
        return to_yaml(value)
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"
