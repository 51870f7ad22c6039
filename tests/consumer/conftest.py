import pytest
from installed import BUILD, CMAKE, run


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """An installed backstay, outside the tree."""
    prefix = tmp_path_factory.mktemp("installed") / "prefix"
    run(CMAKE, "--install", BUILD, "--prefix", prefix)
    return prefix
