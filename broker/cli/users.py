"""``odradek users``: who may log in by SCRAM. Passwords are salted here and never leave this process."""

from __future__ import annotations

from typing import TextIO

import click

from broker.cli.client import bootstrap_option, cluster, describe
from broker.cli.errors import CommandError
from broker.cli.output import rows, say
from network.protocol.errors import ErrorCode
from network.protocol.message import Request
from network.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from network.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from network.sasl.nonces import new_salt
from network.sasl.scram_credential import BY_CODE, MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, salted_password

_mechanism = click.option(
    "--mechanism", type=click.Choice(list(MECHANISMS)), default="SCRAM-SHA-512", show_default=True
)


@click.group("users")
def command() -> None:
    """List, set and delete users who log in by SCRAM."""


@command.command("list")
@click.argument("users", nargs=-1, metavar="[USER]...")
@bootstrap_option
def list_(users: tuple[str, ...], bootstrap_server: str) -> None:
    """Show the users, all without a name, with their mechanisms and iterations."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] or None)
    with cluster(bootstrap_server) as client:
        answer = client.call_any(request)
    _check(answer.error_code, answer.error_message)
    found = []
    for result in answer.results:
        _check(result.error_code, result.error_message)
        found += [(result.user, BY_CODE[info.mechanism].name, info.iterations) for info in result.credential_infos]
    rows(("USER", "MECHANISM", "ITERATIONS"), found)


@command.command("set")
@click.argument("user")
@bootstrap_option
@_mechanism
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    help="How slow a guess at the password is.",
)
@click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    help="Whose first line is the password, - for standard input. Without it you are asked.",
)
def set_(user: str, bootstrap_server: str, mechanism: str, iterations: int, password_file: TextIO | None) -> None:
    """Give USER a password, a new one if there is one."""
    if password_file is None:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = password_file.readline().rstrip("\r\n")
    if not password:
        raise CommandError("the password is empty", exit_code=2)
    change = new_password(user, mechanism, password, iterations)
    _alter(bootstrap_server, AlterUserScramCredentialsRequest(upsertions=[change]))
    say(f"User {user} may log in by {mechanism}.", user=user, mechanism=mechanism, set=True)


def new_password(
    user: str, mechanism: str, password: str, iterations: int = MIN_ITERATIONS
) -> ScramCredentialUpsertion:
    """What gives the user a password: its salted form only."""
    scram, salt = MECHANISMS[mechanism], new_salt()
    return ScramCredentialUpsertion(
        name=user,
        mechanism=scram.code,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(scram, password, salt, iterations),
    )


@command.command("delete")
@click.argument("user")
@bootstrap_option
@_mechanism
def delete(user: str, bootstrap_server: str, mechanism: str) -> None:
    """Take the password of USER for one mechanism away."""
    change = ScramCredentialDeletion(name=user, mechanism=MECHANISMS[mechanism].code)
    _alter(bootstrap_server, AlterUserScramCredentialsRequest(deletions=[change]))
    say(f"User {user} may not log in by {mechanism} any more.", user=user, mechanism=mechanism, deleted=True)


def _alter(bootstrap_server: str, request: Request) -> None:
    with cluster(bootstrap_server) as client:
        (result,) = client.call_controller(request).results
    _check(result.error_code, f"user {result.user}: {result.error_message or ErrorCode.of(result.error_code).message}")


def _check(code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise CommandError(describe(code, message))
