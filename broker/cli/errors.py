"""Errors of commands, as one line for a person."""

from __future__ import annotations


class CommandError(Exception):
    """Ends a command with one line on standard error and an exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class MissingPrerequisiteError(CommandError):
    """Something that must be installed is not; the message names it and the cure."""
