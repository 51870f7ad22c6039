"""What the command line says of lines with parity: 4 ranks on 4 nodes write one, parts of it are lost or damaged."""

import shutil

import numpy as np
import pytest
from backstay.lines import Problem, decode_manifest, open_directory, read_lines
from commands import backstay
from test_lines import GOOD_FILE, manifest_with
from test_session_ranks import START, WRITE, mpi  # noqa: F401 - a fixture
from writer import flip

core = pytest.importorskip("backstay._core")
pytestmark = pytest.mark.skipif(not core.have_mpi, reason="this build has no MPI")

OPTIONS = "levels='local', nodes=4, local_redundancy='rs(3,1)', "


@pytest.fixture
def line(mpi, tmp_path):  # noqa: F811
    """The directory of a line, less what the test takes from it."""
    mpi(4, START.replace("log=", OPTIONS + "log=") + WRITE)
    return tmp_path / "ck"


def node(directory, n):
    return directory / f"node-{n}/local/line-00000001"


def only_line(directory):
    (found,) = read_lines(open_directory(directory))
    return found


def test_a_whole_line_has_a_group_and_verifies(line):
    (group,) = only_line(line).manifest.groups
    assert group.members == (0, 1, 2, 3) and group.owners == 4 and group.parities == 1
    assert (node(line, 2) / group.parity_name(2)).stat().st_size == group.parity_size
    assert backstay("verify", line).status == 0
    assert only_line(line).notes == []


def test_a_lost_node_is_said_to_be_rebuilt_and_the_line_stays_whole(line):
    shutil.rmtree(line / "node-1")
    found = only_line(line)
    assert found.whole and found.from_parity == {"rank-00001.h5"} and "rebuilt from parity" in found.notes[0]
    assert "a file is lost" in backstay("ls", line).out
    ended = backstay("verify", line)
    told = " ".join(ended.out.split())
    assert ended.status == 1
    assert "it is rebuilt from parity when the run resumes" in told and "parity-00000-of-rank-00001" in told
    refused = " ".join(backstay("show", line).err.split())
    assert "rebuilt from parity when the run resumes" in refused


def test_two_lost_nodes_are_more_than_one_parity_gives_back(line):
    for n in (1, 3):
        shutil.rmtree(line / f"node-{n}")
    found = only_line(line)
    assert not found.whole and not found.from_parity and "rank-00001.h5" in found.why


def test_a_lost_node_and_lost_parity_elsewhere_are_two_losses(line):
    shutil.rmtree(line / "node-1")
    (node(line, 2) / "parity-00000-of-rank-00002").unlink()
    assert not only_line(line).whole


@pytest.mark.parametrize("at", [20, 4096 + 100])
def test_damaged_parity_is_found_and_the_data_stay_readable(line, at):
    flip(node(line, 3) / "parity-00000-of-rank-00003", at)
    (found,) = backstay("verify", line, "--json").json["lines"]
    assert found["readable"] and "parity-00000-of-rank-00003" in found["damage"][0]["sentence"]


def test_verify_promises_no_rebuild_that_damaged_parity_prevents(line):
    shutil.rmtree(line / "node-3")
    flip(node(line, 1) / "parity-00000-of-rank-00001", 4096 + 100)
    told = " ".join(backstay("verify", line).out.split())
    assert "rebuilt from parity when" not in told and "level local has no other whole copy of it" in told


def test_a_lost_manifest_is_said_and_written_again_by_the_next_resume(line, mpi):  # noqa: F811
    (node(line, 2) / "manifest").unlink()
    assert only_line(line).whole
    told = " ".join(backstay("verify", line).out.split())
    assert "manifest: it is missing" in told and "rank-00002" not in told
    mpi(4, START.replace("log=", OPTIONS + "log=") + "run.resume()\nassert state.step == 9\n")
    assert backstay("verify", line).status == 0


def test_after_the_next_resume_the_line_verifies_again(line, mpi):  # noqa: F811
    shutil.rmtree(line / "node-1")
    out = mpi(4, START.replace('log="quiet"', OPTIONS + "log='normal'") + "run.resume()\nassert state.step == 9\n")
    assert "rebuilding rank 1 from parity" in out
    assert backstay("verify", line).status == 0


GROUP = {"members": [0, 1], "owners": 1, "parities": 1, "chunk": 4096, "headers": ["00000000", "0000ffff"]}


@pytest.mark.parametrize(
    "change",
    [
        {"members": [0, 0]},
        {"members": [0, 7]},
        {"members": [0]},
        {"owners": 3},
        {"owners": 0},
        {"parities": 0},
        {"parities": 2},
        {"chunk": 8},
        {"chunk": -1},
        {"headers": ["00000000"]},
        {"headers": ["00000000", "x"]},
        {"headers": None},
    ],
)
def test_groups_that_cannot_be_are_refused(change):
    files = [GOOD_FILE, {**GOOD_FILE, "name": "rank-00001.h5", "ranks": [1]}]
    good = [GROUP, {**GROUP, "members": [1, 0]}]
    assert len(decode_manifest(manifest_with(ranks=2, files=files, groups=good)).groups) == 2
    with pytest.raises(Problem):
        decode_manifest(manifest_with(ranks=2, files=files, groups=[good[0], {**good[1], **change}]))


# ---- docs/format.md, and nothing else -------------------------------------------------------------------------------


def product(a, b):
    """In the field of 256 elements with the polynomial 0x11d."""
    out = 0
    while b:
        out ^= a if b & 1 else 0
        a = (a << 1) ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return out


TIMES = np.array([[product(a, b) for b in range(256)] for a in range(256)], np.uint8)
INVERSE = [0] + [int(np.flatnonzero(TIMES[a] == 1)[0]) for a in range(1, 256)]


def row_of(shard, k):
    """What a shard of a stripe is of the k data shards."""
    if shard < k:
        return [int(j == shard) for j in range(k)]
    return [product(INVERSE[shard ^ j], INVERSE[INVERSE[k ^ j]]) for j in range(k)]


def data_of(shards, k):
    """The data shards of a stripe from any k of its shards: Gauss-Jordan."""
    rows = [(row_of(number, k), shard.copy()) for number, shard in list(shards.items())[:k]]
    for i in range(k):
        pivot = next(r for r in range(i, k) if rows[r][0][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        scale = INVERSE[rows[i][0][i]]
        rows[i] = ([product(scale, a) for a in rows[i][0]], TIMES[scale][rows[i][1]])
        for r in range(k):
            factor = rows[r][0][i]
            if r != i and factor:
                rows[r] = (
                    [a ^ product(factor, b) for a, b in zip(rows[r][0], rows[i][0])],
                    rows[r][1] ^ TIMES[factor][rows[i][1]],
                )
    return [shard for _, shard in rows]


@pytest.mark.parametrize("lost", [{0, 1}, {1, 3}, {2, 3}])
def test_lost_files_can_be_made_from_what_the_format_says(mpi, tmp_path, lost):  # noqa: F811
    options = "levels='local', nodes=4, local_redundancy='rs(2,2)', "
    mpi(4, START.replace("log=", options + "log=") + WRITE)
    found = only_line(tmp_path / "ck")
    (group,) = found.manifest.groups
    n, p = len(group.members), group.parities
    k = n - p
    files = [(node(tmp_path / "ck", m) / f"rank-{m:05d}.h5").read_bytes() for m in range(n)]
    parity = [(node(tmp_path / "ck", m) / group.parity_name(m)).read_bytes() for m in range(n)]

    def shard_of(stripe, m):
        place = (m - stripe) % n
        if place < p:
            at = 4096 + place * group.chunk
            return k + place, np.frombuffer(parity[m][at : at + group.chunk], np.uint8)
        at = (place - p) * group.chunk
        return place - p, np.frombuffer(files[m][at : at + group.chunk].ljust(group.chunk, b"\0"), np.uint8)

    made = {m: [b""] * k for m in lost}
    for stripe in range(n):
        data = data_of(dict(shard_of(stripe, m) for m in range(n) if m not in lost), k)
        for m in lost:
            place = (m - stripe) % n
            if place >= p:
                made[m][place - p] = data[place - p].tobytes()
    for m in lost:
        assert b"".join(made[m])[: len(files[m])] == files[m]
