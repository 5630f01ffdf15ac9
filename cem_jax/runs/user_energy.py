"""A user's energy, named on the command line as FILE.py:CLASS."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from cem_jax.energies import Energy, EnergyOf
from cem_jax.ops.checks import nearest


@dataclasses.dataclass(frozen=True)
class UserEnergy(EnergyOf):
    """An energy class that was named on the command line.

    Attributes:
        source_hash: SHA-256 of the file, which says which energy a checkpoint belongs to.
        spec: FILE.py:CLASS, with the whole path.
    """

    source_hash: str
    spec: str


def load_energy(spec: str, *, source_hash: str | None = None) -> UserEnergy:
    """The energy of ``FILE.py:CLASS``; the file is run, as an import would.

    Args:
        spec: the file and the class in it.
        source_hash: SHA-256 that the file must have, before it is run.

    Raises:
        ValueError: the file is missing, is another or fails, or the class is missing, is no
            `Energy`, or cannot be made by ``CLASS(dim, rngs=rngs)``.
    """
    file, colon, name = spec.rpartition(":")
    if not (colon and file and name.isidentifier()):
        raise ValueError(f"attention: got {spec!r}, expected FILE.py:CLASS.")
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"attention: got no file {path}, expected a Python file with {name}.")
    source = path.read_bytes()
    digest = hashlib.sha256(source).hexdigest()
    if source_hash not in (None, digest):
        raise ValueError(
            f"attention: got {spec}, whose file was changed since the run (SHA-256 {digest[:12]}, "
            f"then {str(source_hash)[:12]}), expected the file of the run; restore it."
        )
    factory = _class(_run(path, digest), name, path)
    _require_constructor(factory, spec)
    # The whole path: a run is read again from anywhere.
    return UserEnergy(factory, digest, f"{path.resolve()}:{name}")


def _run(path: Path, digest: str) -> ModuleType:
    place = hashlib.sha256(str(path.resolve()).encode()).hexdigest()
    name = f"cem_user_energy_{digest[:16]}_{place[:8]}"
    if name in sys.modules:
        # Once: a second class of the same source would be another class.
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"attention: got the file {path}, expected one that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up while it runs.
    sys.modules[name] = module
    # As Python does for a script: it may import its neighbours.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(
            f"attention: got a file {path} that fails with {type(error).__name__}: {error}; "
            f"expected one that `python {path}` runs."
        ) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    return module


def _class(module: ModuleType, name: str, path: Path) -> type[Energy]:
    found = getattr(module, name, None)
    if isinstance(found, type) and issubclass(found, Energy):
        return found
    own = [key for key, value in vars(module).items() if _defines_energy(value, module)]
    known = ", ".join(own) or "none"
    if found is not None:
        raise ValueError(
            f"attention: got {name} of {path}, which is no subclass of cem_jax.Energy, expected "
            f"one; the file's energies: {known}."
        )
    raise ValueError(
        f"attention: got no class {name} in {path}, expected one of its energies: {known}."
        f"{nearest(name, own)}"
    )


def _defines_energy(value: Any, module: ModuleType) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, Energy)
        and value.__module__ == module.__name__
    )


def _require_constructor(factory: type[Energy], spec: str) -> None:
    signature = inspect.signature(factory.__init__)
    try:
        signature.bind(None, 128, rngs=None)
    except TypeError as error:
        raise ValueError(
            f"attention: got {spec}, whose constructor takes {signature}, expected one that can "
            f"be called as {factory.__name__}(dim, rngs=rngs)."
        ) from error
