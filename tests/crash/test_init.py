"""Programs that set themselves up in init(): who takes a lost rank's place does it alone, with the answers of a log."""

import re

import pytest
from jobs import BUILD, LOOPER, needs_ulfm, result, run

SETTER = BUILD / "setter"
RANKS = 4


def start(directory, monkeypatch, *, dies="", does="", spares=2, **options):
    monkeypatch.setenv("SETTER_DIES", dies)
    monkeypatch.setenv("SETTER_DOES", does)
    words = {"levels": "memory", "memory__redundancy": "rs(2,1)", "every": 10, "log": "verbose", **options}
    return run(directory, "-n", RANKS, "--spares", spares, "--nodes", RANKS + spares, "--relaunch", 0,
               program=SETTER, words=("300",), **words)  # fmt: skip


def phases(ended):
    """How many each process has run, of those that were there at the end."""
    return {int(who): int(count) for count, who in re.findall(r"phases (\d+) of process (\d+)", ended.stdout)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return result(start(tmp_path_factory.mktemp("undisturbed"), patch))


@needs_ulfm
@pytest.mark.parametrize("rank", range(RANKS))
def test_a_replacement_sets_itself_up_alone_and_the_others_do_not(tmp_path, monkeypatch, undisturbed, rank):
    ended = start(tmp_path, monkeypatch, dies=f"{rank},150")
    assert result(ended) == undisturbed
    assert phases(ended) == {**{who: 2 for who in range(RANKS) if who != rank}, RANKS: 2}
    assert ("set up alone, from a log of" in ended.stderr) == (rank == 0)  # who speaks
    rebuilt = f"the log of what was received in init(): rebuilding rank {rank} from parity"
    assert rebuilt in ended.stderr and "message-log" not in ended.stderr, ended.stderr


@needs_ulfm
def test_replacements_are_replaced_too_also_while_they_set_themselves_up(tmp_path, monkeypatch, undisturbed):
    dies = f"2,150;{RANKS},11;{RANKS + 1},2;{RANKS + 2},200"  # the last one is lost in its steps
    ended = start(tmp_path, monkeypatch, dies=dies, spares=4)
    assert result(ended) == undisturbed
    assert phases(ended) == {0: 2, 1: 2, 3: 2, RANKS + 3: 2}


@needs_ulfm
def test_two_that_are_lost_at_once_have_logs_where_the_parity_bears_it(tmp_path, monkeypatch, undisturbed):
    ended = start(tmp_path, monkeypatch, dies="1,150;3,150", memory__redundancy="rs(2,2)")
    assert result(ended) == undisturbed
    assert phases(ended) == {0: 2, 2: 2, 4: 2, 5: 2}


@needs_ulfm
def test_where_more_are_lost_than_logs_bear_who_took_the_place_of_rank_0_says_so(tmp_path, monkeypatch):
    """The program has no session there yet, by which it would know that it speaks for all."""
    ended = start(tmp_path, monkeypatch, dies="0,150;1,150;2,150", spares=3)
    assert ended.returncode != 0
    sentence = "backstay: more ranks were lost than the logs of what they received in init() bear (parity for 1)"
    assert ended.stderr.count(sentence) == 1, ended.stderr


@needs_ulfm
@pytest.mark.parametrize("place", [1, 2, 11, 12])
@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_that_is_lost_in_a_phase_is_replaced_and_all_run_it_again(
    tmp_path, monkeypatch, undisturbed, rank, place
):
    ended = start(tmp_path, monkeypatch, dies=f"{rank},{place};{RANKS},120")
    assert result(ended) == undisturbed
    again = 2 + 1
    assert phases(ended) == {**{who: again for who in range(RANKS) if who != rank}, RANKS + 1: 2}


@needs_ulfm
def test_a_rank_that_is_lost_between_phases_is_set_up_by_the_log_of_the_first(tmp_path, monkeypatch, undisturbed):
    ended = start(tmp_path, monkeypatch, dies="2,21")
    assert result(ended) == undisturbed
    assert phases(ended) == {0: 3, 1: 3, 3: 3, RANKS: 2}  # the others had begun with the second one


@needs_ulfm
@pytest.mark.parametrize(
    "does, sentence",
    [
        ("window", "MPI_Win_create"),
        ("communicator of a group", "MPI_Comm_create_from_group"),
        ("checkpoint", "checkpoint() was called inside init()"),
        ("resume", "resume() was called inside init()"),
        ("loop", "loop() was called inside init()"),
        ("init", "init() was called inside init()"),
        ("init inside", "init() was called inside loop()"),
        ("throw", "the mesh is not there"),
        ("partitioned", "partitioned communication cannot be used in a job with spares"),
        ("persistent", "the phase leaves a request behind that MPI_Send_init made"),
    ],
)
def test_what_does_not_belong_in_a_phase_is_said(tmp_path, monkeypatch, does, sentence):
    ended = start(tmp_path, monkeypatch, does=does)
    assert ended.returncode != 0
    assert sentence in ended.stderr


@needs_ulfm
def test_a_phase_that_is_refused_is_not_launched_again(tmp_path, monkeypatch):
    monkeypatch.setenv("SETTER_DOES", "window")
    options = {"levels": "memory", "memory__redundancy": "rs(2,1)", "every": 10}
    ended = run(tmp_path, "-n", 3, "--spares", 1, "--nodes", 4, program=SETTER, words=("300",), **options)
    assert ended.returncode != 0 and "MPI_Win_create" in ended.stderr
    assert "the job is not launched again, which would be refused as well" in ended.stderr, ended.stderr
    assert "launch 2" not in ended.stderr


@needs_ulfm
def test_a_replacement_that_makes_other_calls_is_told_so(tmp_path, monkeypatch):
    ended = start(tmp_path, monkeypatch, does="more", dies="2,150")
    assert ended.returncode != 0
    assert "MPI_Barrier" in ended.stderr


@needs_ulfm
@pytest.mark.parametrize(
    "does, sentences",
    [
        ("throw alone", ["setter: the mesh is not on this node"]),
        ("throw while holding", ["left by an error: the mesh is not on this node", "MPI_Comm_free"]),
        ("call while holding", ["is MPI_Bcast", "in its recording it was MPI_Barrier"]),
    ],
)
def test_the_error_of_a_replacement_in_its_phase_is_said(tmp_path, monkeypatch, does, sentences):
    ended = start(tmp_path, monkeypatch, does=does, dies="2,150")
    assert ended.returncode != 0
    assert all(sentence in ended.stderr for sentence in sentences), ended.stderr
    assert "terminate called" not in ended.stderr and "fewer MPI calls" not in ended.stderr, ended.stderr


@needs_ulfm
def test_a_loss_in_a_phase_reaches_who_waits_in_a_duplicate_that_nobody_saw_made(tmp_path, monkeypatch, undisturbed):
    ended = start(tmp_path, monkeypatch, does="idup", dies="1,5")
    assert result(ended) == undisturbed


@needs_ulfm
def test_fewer_ranks_cannot_be_set_up_that_way(tmp_path, monkeypatch):
    ended = start(tmp_path, monkeypatch, shrink="on")
    assert ended.returncode != 0 and "init() and the option shrink" in ended.stderr


def test_without_spares_it_is_just_run(tmp_path, monkeypatch, undisturbed):
    ended = start(tmp_path, monkeypatch, spares=0, does="window")
    assert result(ended) == undisturbed


@needs_ulfm
def test_a_program_in_c_sets_itself_up(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPER_INIT", "1")
    options = {"levels": "memory", "memory__redundancy": "rs(2,1)", "every": 10, "log": "verbose"}
    words = ("-n", 3, "--nodes", 4, "--spares", 1, "--relaunch", 0)
    calm = run(tmp_path / "calm", *words, program=LOOPER, words=("300",), **options)
    lost = run(tmp_path / "lost", *words, "--kill", "0@40", program=LOOPER, words=("300",), **options)
    assert result(lost, "sum") == result(calm, "sum")
    assert "set up alone" in lost.stderr and "set up alone" not in calm.stderr
