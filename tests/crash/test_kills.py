"""A small size of the kill campaign; `python tests/crash/kills.py --runs 50` is the whole of it."""

import kills
import pytest


@pytest.mark.parametrize("mix", kills.MIXES)
def test_a_killed_simulation_comes_back_and_ends_bit_identical(mix, capsys):
    status = kills.main(["--runs", "8", "--kills-each", "4", "--steps", "800", "--mix", mix])
    assert status == 0, capsys.readouterr().err
