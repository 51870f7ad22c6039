"""For the tests of this folder."""

import pytest
from jobs import result, run


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The hash of four ranks that nothing happens to."""
    return result(run(tmp_path_factory.mktemp("undisturbed"), "-n", 4, levels="memory", every=1000000))
