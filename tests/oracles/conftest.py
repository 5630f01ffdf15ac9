"""Independent implementations. Without torch one test says so, in one line, and the rest stay out.

Where ``CEM_REQUIRE_ORACLES=1`` a missing package is a failure.
"""

import importlib.util

PRESENT = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))

collect_ignore_glob = [] if PRESENT else ["test_torch_*.py", "test_huggingface_*.py"]
