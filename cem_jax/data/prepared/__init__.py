"""Text prepared once: cut into pieces and packed to rows, in shards that are read at random.

`prepare` writes a folder, `PreparedCorpus` reads it.
"""

from cem_jax.data.prepared.config import PrepareConfig
from cem_jax.data.prepared.corpus import PreparedCorpus, is_prepared
from cem_jax.data.prepared.domains import Domains
from cem_jax.data.prepared.manifest import Manifest
from cem_jax.data.prepared.prepare import prepare
from cem_jax.data.prepared.rows import PreparedRows

__all__ = [
    "Domains",
    "Manifest",
    "PrepareConfig",
    "PreparedCorpus",
    "PreparedRows",
    "is_prepared",
    "prepare",
]
