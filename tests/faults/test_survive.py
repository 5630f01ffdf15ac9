"""Some of what `survive.py` lets befall a run; all of it takes minutes."""

import compiled
import pytest
import survive

QUICK = [
    survive.flipped,
    survive.all_damaged,
    survive.disk_full,
    survive.another_config,
    survive.more_steps,
]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """The straight run; its copies find what it compiled."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in compiled.settings(tmp_path_factory.mktemp("compiled")).items():
            patch.setenv(name.upper(), str(value))
        yield survive.Case(tmp_path_factory.mktemp("survive"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.__name__)
def test_a_fault_is_survived(fault, case):
    came = fault(case)
    if came.startswith("SKIPPED"):
        pytest.skip(came)
