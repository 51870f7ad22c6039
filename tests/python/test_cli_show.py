"""`backstay show`."""

import numpy as np
import pytest
from commands import backstay, sentence_of
from writer import Checkpoint, flip, split_box


def values_of(directory, *options):
    found = backstay("show", directory, "--json", *options).json
    return {region["name"]: region for region in found["regions"]}


def test_values_are_over_all_ranks(tmp_path):
    whole = np.random.default_rng(0).normal(size=(11, 12, 13))
    Checkpoint(ranks=8).block("u", whole, split_box(whole.shape, 8), "m s-1").write(tmp_path)
    region = values_of(tmp_path)["u"]
    (v,) = region["values"]
    assert (v["min"], v["max"]) == (whole.min(), whole.max()) and np.isclose(v["mean"], whole.mean())
    assert region["global_shape"] == [11, 12, 13] and region["units"] == "m s-1" and region["placement"] == "block"
    assert region["ranks"] == list(range(8)) and len(region["shapes"]) == 8
    assert sorted(region) == sorted(
        "name type dtype shapes global_shape placement ranks units bytes left_out_bytes problem static values".split()
    )


def test_nan_and_infinity_do_not_break_json(tmp_path):
    c = Checkpoint().replicated("x", np.array([np.nan, 1.0, np.inf, -np.inf])).replicated("n", np.full(3, np.nan))
    c.write(tmp_path)
    found = values_of(tmp_path)
    assert found["x"]["values"][0] | {"mean": 0} == {
        "member": "",
        "type": "float64",
        "min": "-Infinity",
        "max": "Infinity",
        "mean": 0,
        "nan": 1,
    }
    assert found["n"]["values"][0]["min"] is None and found["n"]["values"][0]["nan"] == 3
    assert "3 NaN" in backstay("show", tmp_path).out


@pytest.mark.parametrize("columns", [80, 120])
def test_every_kind_of_region_is_shown(tmp_path, columns):
    struct = np.zeros(4, [("pos", "f8", (3,)), ("id", "i8")])
    struct["id"] = [5, 6, 7, 8]
    c = Checkpoint(ranks=2).list("particles", [struct[:1], struct[1:]]).private("rng", [np.arange(3), np.arange(4)])
    c.replicated("größe m/s [red]", np.complex128(3 + 4j)).replicated("title", np.array("Tür".encode()))
    c.replicated("on", np.array([True, False])).replicated("blob", np.zeros(2, "V5")).replicated(
        "none", np.zeros((0, 3))
    )
    c.replicated("wide", np.longdouble("1.5")).replicated("big", np.array([2**63 - 1, -(2**63)]))
    c.write(tmp_path)
    ended = backstay("show", tmp_path, columns=columns)
    assert ended.status == 0 and all(len(line) <= columns for line in ended.out.splitlines()[1:])
    for text in (
        ".pos",
        ".id",
        "6.5",
        "größe m/s [red]",
        "'Tür'",
        "bytes(5)",
        "0×3",
        "1.5",
        "9223372036854775807",
        "3 or 4",
    ):
        assert text in ended.out, text
    assert backstay("show", tmp_path, "--json").json["regions"][2]["values"][0]["min"] == 5.0


def test_many_regions_are_a_list_not_a_table(tmp_path, monkeypatch):
    """Laid out as a table, 20,000 regions took 20 s."""
    c = Checkpoint()
    for k in range(1001):
        c.replicated(f"r{k:04d}", np.int32(k))
    c.replicated("long name " * 30, np.int32(7)).write(tmp_path)
    printed = []
    from rich.console import Console

    original = Console.print
    monkeypatch.setattr(Console, "print", lambda self, *a, **b: printed.append(a) or original(self, *a, **b))
    lines = backstay("show", tmp_path, columns=200).out.splitlines()
    assert lines[2:6] == ["r0000  int32  scalar  replicated", "    0", "r0001  int32  scalar  replicated", "    1"]
    assert len(printed) < 10  # plain text that fits is not given to Rich, which takes longer than all the rest
    assert all(len(line) <= 200 for line in lines[1:]) and lines[-1] == "    7" and "long name" in lines[-3]


def test_names_cannot_steer_the_terminal(tmp_path):
    Checkpoint().replicated("\x1b[2Jx\n", np.int8(1), "\x07").write(tmp_path)
    out = backstay("show", tmp_path).out
    assert "\x1b" not in out and "\x07" not in out and "\\x1b[2Jx\\n" in out


def test_without_values_no_data_are_read(tmp_path):
    files = Checkpoint().replicated("x", np.arange(10.0)).write(tmp_path)
    flip(files[0], 8192)
    assert values_of(tmp_path, "--no-values")["x"]["values"][0]["min"] is None
    assert "not those that were written" in sentence_of(backstay("show", tmp_path))


def test_a_line_that_is_retired_meanwhile_is_replaced_by_the_next(tmp_path, monkeypatch):
    """A running job overwrites the files of line 1 and commits line 2 while line 1 is read."""
    files = Checkpoint(line=1).replicated("x", np.arange(10.0)).write(tmp_path)
    from backstay.cli import show as module

    original = module.__dict__["_regions"]

    def overtaken(line, with_values):
        found = original(line, with_values)
        if line.number == 1:
            files[-1].unlink()
            Checkpoint(line=2).replicated("x", np.arange(10.0) + 5).write(tmp_path)
        return found

    monkeypatch.setitem(module.show.__globals__, "_regions", overtaken)
    found = backstay("show", tmp_path, "--json").json
    assert found["line"] == 2 and found["regions"][0]["values"][0]["max"] == 14
