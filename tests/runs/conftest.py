import pytest
import small_run


@pytest.fixture(scope="session")
def own_text(tmp_path_factory):
    return small_run.write_text(tmp_path_factory.mktemp("text") / "messages.txt")
