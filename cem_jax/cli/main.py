"""`cem`: finds the subcommand and hands it the rest of the line."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NamedTuple

import cem_jax
from cem_jax.cli.mistakes import is_ours
from cem_jax.ops.checks import nearest


class Command(NamedTuple):
    """A subcommand: the module whose ``main(arguments)`` runs it, and what it does in one line."""

    module: str
    summary: str


COMMANDS = {
    "train": Command("cem_jax.cli.train", "train a model on text and see what it reached"),
    "evaluate": Command("cem_jax.cli.evaluate", "recompute the figures of a run"),
    "generate": Command("cem_jax.cli.generate", "let a run go on with a prompt"),
    "compare": Command("cem_jax.cli.compare", "train or read several runs, side by side"),
    "sweep": Command("cem_jax.cli.sweep", "many variants with many seeds: one table, one picture"),
    "checkpoint": Command("cem_jax.cli.checkpoint", "list the saved states of a run, or read all"),
    "export": Command("cem_jax.cli.export", "write the weights of a run as safetensors"),
    "import": Command("cem_jax.cli.import_weights", "make a run of exported or Llama weights"),
    "data": Command("cem_jax.cli.data", "prepare large text for training, once; look into it"),
    "verify": Command("cem_jax.cli.verify", "certify that the layers are what they claim"),
    "bench": Command("cem_jax.cli.bench", "models side by side, in time and memory"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``cem NAME ...`` and return its exit status; a caller's mistake is 2 and one message."""
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Who read our output has gone, as `| head` does; Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0
    if arguments[0] == "--version":
        print(f"cem_jax {cem_jax.__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        hint = nearest(name, COMMANDS)
        print(
            f"cem: got {name!r}, expected one of {', '.join(COMMANDS)}.{hint}",
            file=sys.stderr,
        )
        return 2
    try:
        # Imported on demand: a command pays for its own imports only.
        return importlib.import_module(COMMANDS[name].module).main(rest)
    except ValueError as error:
        if not is_ours(error):
            raise
        print(f"cem {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"cem {name}: interrupted", file=sys.stderr)
        return 130


def _help() -> str:
    lines = ["usage: cem COMMAND [OPTIONS]", "", "Causal Energy Minimization in JAX.", ""]
    lines += [f"  {name:<12}{command.summary}" for name, command in COMMANDS.items()]
    return "\n".join([*lines, "", "`cem COMMAND --help` explains a command's options."])


if __name__ == "__main__":
    sys.exit(main())
