"""``odradek completion``: what a shell has to know to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_ODRADEK_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash (4.4 or newer):  eval "$(odradek completion bash)" in ~/.bashrc
    zsh:                  eval "$(odradek completion zsh)" in ~/.zshrc
    fish:                 odradek completion fish > ~/.config/fish/completions/odradek.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "odradek", _VARIABLE).source())
