"""`backstay report`: what became of a job, from events."""

import json
import os
from html.parser import HTMLParser

import pytest
from backstay.history import read_history
from commands import backstay, sentence_of
from writer import Checkpoint

LAUNCHED_AGAIN = [
    (0, "launch", {"attempt": 1, "ranks": 8, "nodes": 4}),
    (1, "start", {"program": "tgv <x>", "ranks": 8}),
    (1.1, "fresh", {}),
    (11, "commit", {"line": 1, "level": "local", "call": 10, "seconds": 1, "bytes": 1000}),
    (12, "commit", {"line": 1, "level": "shared", "call": 10, "seconds": 2, "bytes": 4000}),
    (21, "commit", {"line": 2, "level": "local", "call": 20, "seconds": 1, "bytes": 1000}),
    (22, "failed", {"line": 2, "level": "shared", "call": 20, "seconds": 1, "why": "no room & no hope"}),
    (25, "exit", {"attempt": 1, "status": 137, "signal": 9, "seconds": 25}),
    (26, "launch", {"attempt": 2, "ranks": 8, "nodes": 4}),
    (27, "start", {"program": "tgv <x>", "ranks": 8}),
    (28, "resume", {"line": 1, "level": "shared", "call": 10, "seconds": 0.5}),
    (38, "commit", {"line": 3, "level": "local", "call": 20, "seconds": 1, "bytes": 1000}),
    (39, "start", {"program": "tgv <x>", "ranks": 8, "repairs": 1}),
    (39, "repair", {"lost": 2, "seconds": 0.5}),
    (39.5, "resume", {"line": 3, "level": "local", "call": 20, "seconds": 0.1}),
    (50, "end", {}),
    (50, "exit", {"attempt": 2, "status": 0, "signal": None, "seconds": 24}),
]


def write(directory, events, begin=1.7e9, before=""):
    directory.mkdir(exist_ok=True)
    Checkpoint().replicated("step", 3).write(directory)
    lines = [json.dumps({"time": begin + time, "event": name, **values}) for time, name, values in events]
    (directory / "events.jsonl").write_text(before + "\n".join(lines) + "\n")
    return directory


def test_losses_are_told_with_what_they_cost(tmp_path):
    report = backstay("report", write(tmp_path / "ck", LAUNCHED_AGAIN), "--json").json
    assert (report["program"], report["ranks"], report["state"], report["launches"]) == ("tgv <x>", 8, "done", 2)
    assert report["seconds"] == 50
    ended, replaced = report["failures"]
    assert (
        ended["what"] == "launch 1 ended with signal SIGKILL" and ended["how"] == "launched again, resumed from line 1"
    )
    assert ended["stood_still"] == 3 and ended["lost_work"] == 15 and ended["level"] == "shared"
    assert replaced["what"] == "2 ranks lost" and replaced["how"] == "replaced by spares, resumed from line 3"
    assert replaced["stood_still"] == 1 and replaced["lost_work"] == 1.5
    assert (report["stood_still"], report["lost_work"]) == (4, 16.5)
    assert [(start["time"], start["call"]) for start in report["starts"]] == [(1, 0), (28, 10), (39.5, 20)]
    local, shared = report["levels"]
    assert (local["lines"], local["bytes"], local["bytes_per_second"], local["given_up"]) == (3, 3000, 1000, 0)
    assert (shared["lines"], shared["bytes_per_second"], shared["given_up"]) == (1, 2000, 1)


def test_a_directory_whose_name_is_no_text_has_a_page(tmp_path):
    directory = write(tmp_path / os.fsdecode(b"caf\xe9"), LAUNCHED_AGAIN)
    assert backstay("report", directory, "-o", tmp_path / "page.html").status == 0
    assert "caf?" in (tmp_path / "page.html").read_text()


def test_a_program_that_goes_back_by_itself_begins_again_there(tmp_path):
    """Its line of steps is broken where it does, and not drawn from the end of before."""
    events = [
        (0, "start", {"program": "x", "ranks": 2}),
        (0.1, "fresh", {}),
        (11, "commit", {"line": 1, "level": "shared", "call": 10, "seconds": 1, "bytes": 1000}),
        (51, "commit", {"line": 2, "level": "shared", "call": 50, "seconds": 1, "bytes": 1000}),
        (52, "resume", {"line": 1, "level": "shared", "call": 10, "seconds": 0.1}),
        (91, "commit", {"line": 3, "level": "shared", "call": 50, "seconds": 1, "bytes": 1000}),
        (92, "end", {}),
    ]
    assert read_history(write(tmp_path / "ck", events)).starts == [(0, 0), (52, 10)]


def test_what_the_launcher_takes_to_end_behind_a_loss_is_no_work(tmp_path):
    late = [(t, name, e | {"since_first_end": 2} if t == 25 else e) for t, name, e in LAUNCHED_AGAIN]
    ended, _ = backstay("report", write(tmp_path / "ck", late), "--json").json["failures"]
    assert (ended["time"], ended["stood_still"], ended["lost_work"]) == (23, 5, 13)


def test_a_session_with_a_name_is_told_with_its_launches(tmp_path):
    """From its own directory and from that of the job; two sessions of one job are told one at a time."""
    by_run = [event for event in LAUNCHED_AGAIN if event[1] in {"launch", "exit"}]
    by_session = [event for event in LAUNCHED_AGAIN if event not in by_run]
    job = write(tmp_path / "ck", by_run)
    write(job / "foo", by_session)
    expected = backstay("report", write(tmp_path / "unnamed", LAUNCHED_AGAIN), "--json").json
    for directory in (job, job / "foo"):
        told = backstay("report", directory, "--json").json
        assert told | {"directory": ""} == expected | {"directory": ""}
    write(job / "bar", by_session)
    sentence = f"{job} has several sessions: name the directory of one, {job / 'bar'} or {job / 'foo'}."
    assert sentence in sentence_of(backstay("report", job)).replace("\n", " ")
    assert backstay("report", job / "foo", "--json").json["launches"] == 2
    # A later run is another session's.
    lines = [{"time": 1.8e9, "event": "launch", "attempt": 1}, {"time": 1.8e9 + 1, "event": "exit", "status": 0}]
    with (job / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    assert backstay("report", job / "foo", "--json").json == expected | {"directory": str(job / "foo")}


def test_events_of_other_kinds_than_ours_are_passed_over(tmp_path):
    odd = [(3, "start", {"ranks": "many"}), (4, "exit", {"status": "bad"}), (5, "commit", {"line": [1]})]
    odd += [(6, "commit", {"line": 7, "bytes": float("nan")}), (7, "repair", {"lost": float("inf")})]
    expected = backstay("report", write(tmp_path / "ck", LAUNCHED_AGAIN), "--json").json
    written = write(tmp_path / "ck", [*LAUNCHED_AGAIN[:3], *odd, *LAUNCHED_AGAIN[3:]])
    with (written / "events.jsonl").open("a") as file:
        file.write("[" * 200000 + "\n")
    told = backstay("report", written, "--json").json
    assert told == expected
    without = [(22, "failed", {"line": None, "level": "shared", "seconds": None, "why": "?"})]
    assert backstay("report", write(tmp_path / "ck", LAUNCHED_AGAIN[:6] + without)).status == 0


def test_a_loss_before_a_new_line_costs_what_this_launch_has_computed(tmp_path):
    """What it goes back to was saved by a run of before."""
    events = [*LAUNCHED_AGAIN[:2], (2, "resume", {"line": 9, "level": "shared", "call": 90}), *LAUNCHED_AGAIN[7:10]]
    events += [(28, "resume", {"line": 9, "level": "shared", "call": 90})]
    (loss,) = backstay("report", write(tmp_path / "ck", events), "--json").json["failures"]
    assert loss["lost_work"] == 24 and loss["stood_still"] == 3


def test_a_second_loss_before_a_new_line_costs_what_was_computed_since_the_first(tmp_path):
    """And not again what the first one has cost."""
    again = [(31, "repair", {"lost": 1, "seconds": 0.5}), (31.5, "resume", {"line": 1, "level": "shared", "call": 10})]
    events = [*LAUNCHED_AGAIN[:11], *again, LAUNCHED_AGAIN[-2], LAUNCHED_AGAIN[-1]]
    report = backstay("report", write(tmp_path / "ck", events), "--json").json
    first, second = report["failures"]
    assert first["lost_work"] == 15 and second["lost_work"] == 2.5, report["failures"]


def test_what_a_repair_had_kept_and_a_later_failure_loses_is_counted_then(tmp_path):
    """The repair came back to line 3, and the next launch, in which all begins anew, to none; then to a new line 1."""
    end = {"attempt": 2, "status": 1, "signal": None, "seconds": 24}
    events = [*LAUNCHED_AGAIN[:-2], (50, "exit", end), (51, "launch", {"attempt": 3, "ranks": 8}),
              (52, "start", {"program": "tgv <x>", "ranks": 8}), (52.5, "fresh", {}),
              (62.5, "commit", {"line": 1, "level": "local", "call": 10, "seconds": 1, "bytes": 1000}),
              (65, "repair", {"lost": 1, "seconds": 0.5}),
              (65.5, "resume", {"line": 1, "level": "local", "call": 10}), (70, "end", {})]  # fmt: skip
    report = backstay("report", write(tmp_path / "ck", events), "--json").json
    first, second, third, fourth = report["failures"]
    assert (first["lost_work"], second["lost_work"]) == (15, 1.5)
    assert third["lost_work"] == 28.5, "line 3 had 18 s, and 10.5 s came to it"
    assert (fourth["stood_still"], fourth["lost_work"]) == (1, 3)


FALLEN_SILENT = [
    *LAUNCHED_AGAIN[:5],
    (20, "start", {"program": "a", "ranks": 8, "repairs": 1}),
    (20, "repair", {"lost": 1, "seconds": 0.5}),
    (20, "repair", {"lost": 0, "seconds": 0.1}),
]


def test_what_comes_of_one_loss_is_one_failure(tmp_path):
    """They meet twice, nobody goes on, and the next launch does."""
    again = [(22, "exit", {"attempt": 1, "status": 1, "signal": None, "seconds": 22}), *LAUNCHED_AGAIN[8:11]]
    report = backstay("report", write(tmp_path / "ck", FALLEN_SILENT + again), "--json").json
    (loss,) = report["failures"]
    assert loss["what"] == "1 rank lost; launch 1 ended with status 1"
    assert loss["how"] == "launched again, resumed from line 1"
    assert (loss["time"], loss["stood_still"], loss["lost_work"]) == (19.5, 8.5, 9.5)


@pytest.mark.parametrize(
    ("repair", "how"),
    [
        ({"lost": 2, "replaced": 2}, "replaced by spares"),
        ({"lost": 2, "replaced": 0}, "the ranks that were left went on"),
        ({"lost": 3, "replaced": 1}, "1 replaced by spares, and the ranks that were left went on"),
        ({"lost": 0, "replaced": 0}, "nobody had to be replaced"),
    ],
)
def test_how_a_loss_was_survived_is_told(tmp_path, repair, how):
    """With shrink=on, or where a spare was lost, nobody takes a place."""
    events = [(t, name, repair | {"seconds": 0.5} if name == "repair" else e) for t, name, e in LAUNCHED_AGAIN]
    *_, loss = backstay("report", write(tmp_path / "ck", events), "--json").json["failures"]
    assert loss["how"] == f"{how}, resumed from line 3"
    assert loss["online"]


LOST = [
    *LAUNCHED_AGAIN[:4],
    (20, "repair", {"lost": 1, "replaced": 1, "numbers": "5", "seconds": 0.5}),
    (20.5, "resume", {"line": 1, "level": "local", "call": 10, "seconds": 0.1}),
    (24, "lost", {"numbers": "2, 7", "seconds": 0.5}),
]


def test_ranks_that_nobody_takes_the_place_of_are_named(tmp_path):
    directory = write(tmp_path / "ck", LOST + LAUNCHED_AGAIN[7:11])
    replaced, failed = backstay("report", directory, "--json").json["failures"]
    assert replaced["what"] == "rank 5 lost" and replaced["ranks"] == [5]
    what = "ranks 2, 7 lost, and not replaced; launch 1 ended with signal SIGKILL"
    assert failed["what"] == what and failed["ranks"] == [2, 7]
    assert failed["how"] == "launched again, resumed from line 1"
    assert (failed["time"], failed["stood_still"], failed["online"]) == (23.5, 4.5, False)
    backstay("report", directory, "-o", tmp_path / "page.html")
    assert what in (tmp_path / "page.html").read_text()


def test_a_job_of_another_launcher_that_ended_by_a_loss_is_one_failure(tmp_path):
    again = [(30, "start", {"program": "a", "ranks": 8}), (31, "resume", {"line": 1, "level": "local", "call": 10})]
    losses = backstay("report", write(tmp_path / "ck", LOST + again), "--json").json["failures"]
    assert [loss["what"] for loss in losses] == ["rank 5 lost", "ranks 2, 7 lost, and not replaced"]


def test_a_loss_during_a_repair_that_nobody_survives_is_one_failure(tmp_path):
    """The repair was told, the data were not back yet, and then nobody was left to take a place."""
    events = [*LOST[:5], (21, "lost", {"numbers": "6", "seconds": 0.5}), *LAUNCHED_AGAIN[7:11]]
    (loss,) = backstay("report", write(tmp_path / "ck", events), "--json").json["failures"]
    assert loss["what"] == "rank 5 lost; rank 6 lost, and not replaced; launch 1 ended with signal SIGKILL"
    assert loss["ranks"] == [5, 6] and not loss["online"]


def test_of_many_ranks_that_were_lost_the_number_is_told(tmp_path):
    many = {"numbers": ", ".join(map(str, range(1000))), "seconds": 0.5}
    directory = write(tmp_path / "ck", [*LAUNCHED_AGAIN[:4], (24, "lost", many), *LAUNCHED_AGAIN[7:11]])
    (loss,) = backstay("report", directory, "--json").json["failures"]
    assert loss["what"].startswith("1000 ranks lost, and not replaced") and len(loss["ranks"]) == 1000


def test_a_loss_while_another_is_repaired_is_no_third_one(tmp_path):
    """The first one's repair got as far as the opening of the session, where a second rank was lost."""
    both = [(20, "start", {"program": "a", "ranks": 8, "repairs": 1})]
    both += [(21, "start", {"program": "a", "ranks": 8, "repairs": 2})]
    both += [(21, "repair", {"lost": 1, "replaced": 1, "seconds": s}) for s in (1.5, 0.5)]
    both += [(21.5, "resume", {"line": 1, "level": "shared", "call": 10, "seconds": 0.5}), (30, "end", {})]
    losses = backstay("report", write(tmp_path / "ck", LAUNCHED_AGAIN[:5] + both), "--json").json["failures"]
    assert [loss["what"] for loss in losses] == ["1 rank lost", "1 rank lost"]


def test_a_loss_before_the_session_was_open_is_one_failure(tmp_path):
    events = [LAUNCHED_AGAIN[0], (1, "start", {"program": "a", "ranks": 8, "repairs": 1})]
    events += [(1, "repair", {"lost": 1, "replaced": 1, "seconds": 0.2}), (1.1, "fresh", {}), (9, "end", {})]
    report = backstay("report", write(tmp_path / "ck", events), "--json").json
    assert [loss["what"] for loss in report["failures"]] == ["1 rank lost"]
    assert report["ranks"] == 8


def test_two_launches_that_fail_are_two_failures(tmp_path):
    again = [(23, "launch", {"attempt": 2, "ranks": 8}), (24, "start", {"program": "a", "ranks": 8})]
    ends = [(time, "exit", {"attempt": n, "status": 1, "signal": None}) for n, time in ((1, 22), (2, 25))]
    report = backstay("report", write(tmp_path / "ck", [*LAUNCHED_AGAIN[:5], ends[0], *again, ends[1]]), "--json").json
    assert [loss["what"] for loss in report["failures"]] == [f"launch {n} ended with status 1" for n in (1, 2)]


@pytest.mark.parametrize("word", ["hang", "stuck"])
def test_time_in_silence_is_not_counted_as_work(tmp_path, word):
    killed = {"attempt": 1, "status": 137, "signal": 9, "seconds": 60}
    again = [(time + 50, event, values) for time, event, values in LAUNCHED_AGAIN[8:11]]
    events = [*LAUNCHED_AGAIN[:5], (60, word, {"seconds": 45}), (61, "exit", killed), *again]
    (loss,) = backstay("report", write(tmp_path / "ck", events), "--json").json["failures"]
    assert (loss["time"], loss["stood_still"], loss["lost_work"]) == (15, 63, 5)


def test_a_launch_in_which_no_session_was_opened_stood_still(tmp_path):
    killed = {"attempt": 1, "status": 137, "signal": 9, "seconds": 6}
    events = [LAUNCHED_AGAIN[0], (6, "exit", killed), (7, *LAUNCHED_AGAIN[8][1:])]
    events += [(8, "start", {"program": "a", "ranks": 8}), (8.5, "fresh", {})]
    (loss,) = backstay("report", write(tmp_path / "ck", events), "--json").json["failures"]
    assert (loss["time"], loss["stood_still"], loss["lost_work"]) == (0, 8.5, 0)


class Tags(HTMLParser):
    """Every tag that is opened is closed, in its order."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.links = [], "", []

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in {"src", "href"}]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def test_page_is_whole_and_needs_nothing_else(tmp_path):
    out = tmp_path / "report.html"
    ended = backstay("report", write(tmp_path / "ck", LAUNCHED_AGAIN), "-o", out)
    assert ended.status == 0 and "Written to" in ended.out
    tags, text = Tags(), out.read_text()
    tags.feed(text)
    assert tags.open == [] and tags.links == [] and "http" not in text and "<script" not in text
    for wanted in ("tgv <x> on 8 ranks", "launch 1 ended with signal SIGKILL", "no room & no hope", "16.5 s", "line 3"):
        assert wanted in tags.text, wanted
    assert text.count("<polyline") == 3 and text.count("<rect") == 4 + 2  # lines; times without ranks
    assert "is there already" in sentence_of(backstay("report", tmp_path / "ck", "-o", out))
    assert backstay("report", tmp_path / "ck", "-o", out, "--force").status == 0


def test_only_the_newest_run_is_told_and_torn_events_are_passed_over(tmp_path):
    older = "".join(json.dumps({"time": 1.6e9 + t, "event": e, **v}) + "\n" for t, e, v in LAUNCHED_AGAIN)
    other = '{"time": 16\n[1]\n{"event": 4, "time": 1}\n{"time": "x", "event": "end"}\n\xff\n'
    report = backstay("report", write(tmp_path / "ck", LAUNCHED_AGAIN, before=older + other), "--json").json
    assert report["began"] == 1.7e9 and len(report["failures"]) == 2


def test_a_job_of_another_launcher_that_died_without_a_word_and_runs_again(tmp_path):
    events = [
        (0, "start", {"program": "a", "ranks": 2}),
        (5, "commit", {"line": 1, "level": "shared", "call": 5, "seconds": 1, "bytes": 10}),
        (9, "start", {"program": "a", "ranks": 4}),
        (10, "resume", {"line": 1, "level": "shared", "call": 5, "seconds": 1}),
    ]
    directory = write(tmp_path / "ck", events)
    report = backstay("report", directory, "--json").json
    (loss,) = report["failures"]
    assert loss["what"] == "the job ended without a word" and (loss["time"], loss["stood_still"]) == (5, 5)
    assert report["state"] == "running, or ended without a word" and report["ranks"] == 4
    assert "a on 4 ranks: running" in backstay("report", directory).out


@pytest.mark.parametrize("behind", [[], [(7, "over", {})]], ids=["alone", "with-spares"])
def test_a_job_behind_another_one_that_came_to_its_end_is_told_alone(tmp_path, behind):
    """Both by a launcher of their own: what the first one lost is not of the second."""
    start, repair = ("start", {"program": "a", "ranks": 2}), ("repair", {"lost": 1, "replaced": 1, "seconds": 0.1})
    first = [(0, *start), (5, *repair), (6, "end", {}), *behind]
    report = backstay("report", write(tmp_path / "ck", [*first, (100, *start), (105, "end", {})]), "--json").json
    assert (report["failures"], report["seconds"]) == ([], 5)


@pytest.mark.parametrize(
    "events", [[(0, "start", {"program": "a", "ranks": 1})], LAUNCHED_AGAIN[:3], LAUNCHED_AGAIN[:8]]
)
def test_a_run_that_has_just_begun_or_failed_has_a_page(tmp_path, events):
    directory = write(tmp_path / "ck", events)
    assert backstay("report", directory, "-o", tmp_path / "page.html").status == 0
    assert "Time line" in (tmp_path / "page.html").read_text()


def test_what_is_no_job_s_directory_is_told(tmp_path):
    assert "missing" in sentence_of(backstay("report", tmp_path / "missing"))
    Checkpoint().replicated("step", 3).write(tmp_path / "ck")
    assert "has no events yet" in sentence_of(backstay("report", tmp_path / "ck"))
    write(tmp_path / "ck", LAUNCHED_AGAIN)
    assert "is among what backstay keeps" in sentence_of(
        backstay("report", tmp_path / "ck", "-o", tmp_path / "ck/shared/x")
    )
    assert "named" in backstay("report", f"{tmp_path / 'ck'}@3").err


def test_a_pipe_in_place_of_the_events_is_not_waited_for(tmp_path):
    Checkpoint(line=1, ranks=2, nodes=1).replicated("x", 1.0).write(tmp_path, "shared")
    os.mkfifo(tmp_path / "events.jsonl")
    assert "has no events" in sentence_of(backstay("report", tmp_path))
