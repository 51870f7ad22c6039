"""`backstay demo` with a stand-in for the simulation: rank 0 writes real lines, the others wait and die if told."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from backstay.cli import demo, demo_picture
from backstay.mpirun import find
from writer import Checkpoint

ROOT = Path(__file__).resolve().parents[2]
COMMAND = shlex.split(
    os.environ.get("COMMAND_OF_BACKSTAY", f'{sys.executable} -c "from backstay.cli import main; exit(main())"')
)
LIMIT = 240  # seconds; a demo takes ten
MPI = find(None, 8).kind
needs_repair = pytest.mark.skipif(MPI != "openmpi", reason="this MPI cannot go on after the loss of a rank")

TGV = '''#!{python}
"""Stand-in for tgv: 8 ranks, of which rank 0 computes. FAULT: "" or "curve" or "field" or "fresh" or "kept" (no
repair)."""
import glob, json, os, signal, sys, time
sys.path.insert(0, "{tests}")
env, words, fault = os.environ, sys.argv[1:], "{fault}"
rank = int(env.get("OMPI_COMM_WORLD_RANK") or env.get("PMI_RANK") or 0)
here, every = env["BACKSTAY_DIR"], int(env["BACKSTAY_EVERY"])
value = lambda name: words[words.index(name) + 1]
n, t_end = int(value("--n")), float(value("--t-end"))
dt = float(value("--cfl")) * 2 * 3.141592653589793 / n / 11
steps = int(-(-t_end // dt))
repairs = "BACKSTAY_SPARES" in env
node, _, kill_call = ("node9@0" if repairs else env.get("BACKSTAY_KILL", "node9@0"))[4:].partition("@")
def end_if_told(call):
    if call >= int(kill_call) and rank * 4 // 8 == int(node):
        os.kill(os.getpid(), signal.SIGKILL)
if rank != 0:
    while not os.path.exists(f"{{here}}/end"):
        time.sleep(0.05)
        end_if_told(int(os.path.getsize(f"{{here}}/clock") if os.path.exists(f"{{here}}/clock") else 0))
    sys.exit(0)
import numpy as np
from writer import Checkpoint, split_box
def event(name, **values):
    with open(f"{{here}}/events.jsonl", "a") as file:
        file.write(json.dumps({{"time": 0, "event": name, **values}}) + "\\n")
found = sorted(glob.glob(f"{{here}}/node-0/partner/line-*/manifest"))
first, line, resumed = 0, 0, bool(found)
if found:
    body = json.loads(open(found[-1]).read().partition("\\n")[2])
    line, first = body["line"], body["call"] - 1
    if fault == "fresh":
        event("fresh")
    else:
        event("resume", line=line, level="partner", call=body["call"], seconds=0.01)
if repairs and fault != "kept":
    event("repair", lost=2, seconds=0.01)
    event("resume", line=1, level="memory", call=2, seconds=0.01)
for step in range(first, steps):
    call = step + 1
    with open(f"{{here}}/clock", "w") as clock:
        clock.write("x" * call)  # its size is the call
    if call % every == 0:
        line += 1
        c = Checkpoint(line=line, ranks=8, nodes=4, call=call).replicated("step", np.int32(step))
        for k, name in enumerate(["density", "momentum_x", "momentum_y", "momentum_z", "energy"]):
            field = 1 + np.sin(np.arange(n**3) * (k + 1.0) + step).reshape(n, n, n) / 2
            if fault == "field" and resumed:
                field[1, 2, 3] = np.nextafter(field[1, 2, 3], 9)
            c.block(name, field, split_box((n, n, n), 8))
        for level in ("shared",) if repairs else ("partner", "shared"):
            c.write(here, level)
            event("commit", line=line, level=level, call=call, seconds=0.01, bytes=1)
        for place in ("node-*/partner", "shared"):
            for old in glob.glob(f"{{here}}/{{place}}/line-{{line - 2:08}}/manifest"):
                os.remove(old)
    for _ in range(200 if kill_call != "0" and call > int(kill_call) else 0):
        time.sleep(0.1)  # until the launcher ends this rank, too
with open(value("--csv"), "w") as file:
    file.write("step,time,kinetic_energy,enstrophy,dissipation,enstrophy_dissipation\\n")
    for step in range(0, steps, 5):
        slip = 1e-17 if fault == "curve" and resumed and step > first else 0
        file.write(f"{{step}},{{step * dt:.17g}},0.1,0.4,{{0.001 * step + slip:.17g}},0.001\\n")
if repairs:
    event("end")
    event("over")
open(f"{{here}}/end", "w").close()
'''


def run_demo(tmp_path, *words, fault=""):
    tgv = tmp_path / "apps" / "tgv" / "tgv"
    tgv.parent.mkdir(parents=True)
    text = TGV.format(python=sys.executable, tests=Path(__file__).parent, fault=fault)
    tgv.write_text(text)
    tgv.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    env["PYTHONPATH"] = str(ROOT / "python")
    command = [*COMMAND, "demo", "--quick", "--apps-dir", "apps", "--out", "out", *words]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)


@needs_repair
def test_the_demo_itself_comes_through_its_losses(tmp_path):
    """With the simulation: what `./dev demo` does, in a smaller cube."""
    apps = Path(os.environ.get("BUILD_DIR_OF_BACKSTAY", ROOT / "build" / "dev")).absolute() / "apps"
    if not (apps / "tgv" / "tgv").exists():
        pytest.skip("the simulation is not built here")
    env = {name: value for name, value in os.environ.items() if not name.startswith("BACKSTAY_")}
    command = [*COMMAND, "demo", "--quick", "--apps-dir", apps, "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    assert "node 1 is lost" in done.stderr
    assert "is rank 2 now" in done.stderr and "is rank 5 now" in done.stderr, done.stderr
    journal = tmp_path / "out" / "repaired" / "checkpoints" / "events.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert sum(event["event"] == "launch" for event in events) == 1
    assert [event["number"] for event in events if event["event"] == "killed"] == [2, 5]
    happened = [event["event"] for event in events if event["event"] in {"killed", "repair", "resume"}]
    together = ["killed", "killed", "repair", "resume"]  # in one repair, or in one that began anew with the second
    assert happened in [together, [*together[:-1], "repair", "resume"]], "the second was not lost in the first's repair"
    assert (tmp_path / "out" / "demo.png").read_bytes()[:4] == b"\x89PNG"


def test_run_that_lost_a_node_ends_like_the_undisturbed_one(tmp_path):
    done = run_demo(tmp_path, "--picture", "images/demo.png")
    assert done.returncode == 0, done.stderr
    assert "node 1 is lost" in done.stderr
    if MPI == "openmpi":
        assert "2 spares on 5 simulated nodes" in done.stderr and "with ranks 2 and 5 lost" in done.stdout
    else:
        assert "This MPI cannot replace ranks" in done.stdout
    assert "bytes of CSV: identical" in done.stdout and "values in 6 regions" in done.stdout
    png = (tmp_path / "out" / "demo.png").read_bytes()
    assert png[:4] == b"\x89PNG" and png == (tmp_path / "images" / "demo.png").read_bytes()


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("curve", "The curves differ"),
        ("field", "The region density differs between the two runs"),
        ("fresh", "did not resume from a checkpoint"),
        pytest.param("kept", "2 ranks were not replaced as planned", marks=needs_repair),
    ],
)
def test_demo_fails_when_the_runs_differ(tmp_path, fault, sentence):
    done = run_demo(tmp_path, fault=fault)
    assert done.returncode == 1
    assert sentence in done.stderr and "Traceback" not in done.stderr


def test_demo_without_the_simulation_says_how_to_build_it(tmp_path):
    done = run_demo(tmp_path, "--apps-dir", "nowhere")
    assert done.returncode == 2
    assert "tgv is not in nowhere: build it" in done.stderr


def test_directory_with_other_things_is_not_overwritten(tmp_path):
    (tmp_path / "out" / "undisturbed").mkdir(parents=True)
    (tmp_path / "out" / "undisturbed" / "thesis.txt").write_text("years of work")
    done = run_demo(tmp_path)
    assert done.returncode == 2 and "not a demo's" in done.stderr
    assert (tmp_path / "out" / "undisturbed" / "thesis.txt").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--picture", "ck/shared/line-00000001/manifest"),
        ("--picture", "aside/../shared/picture.png"),
        ("--out", "ck/shared"),
    ],
)
def test_demo_does_not_write_over_a_checkpoint(tmp_path, words):
    Checkpoint().replicated("x", np.arange(3)).write(tmp_path / "ck")
    (tmp_path / "ck" / "mine").mkdir()
    (tmp_path / "aside").symlink_to("ck/mine")
    before = sorted((tmp_path / "ck").rglob("*"))
    done = run_demo(tmp_path, *words)
    assert done.returncode == 1 and "is among what backstay keeps" in done.stderr and done.stderr.count("\n") == 1
    assert sorted((tmp_path / "ck").rglob("*")) == before and not (tmp_path / "out").exists()


def test_a_picture_without_a_name_is_told_before_anything_is_computed(tmp_path):
    (tmp_path / "images").mkdir()
    done = run_demo(tmp_path, "--picture", "images")
    assert done.returncode == 1 and "images is a directory: name a file in it" in done.stderr
    assert not (tmp_path / "out").exists()


def test_vorticity_of_a_known_flow():
    z, y, x = np.meshgrid(*[np.arange(32) * 2 * np.pi / 32] * 3, indexing="ij")
    density = 2 + np.sin(x)
    velocity = [np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), np.zeros_like(x)]
    fields = {"density": density} | {f"momentum_{a}": density * u for a, u in zip("xyz", velocity)}
    curl = [
        -np.cos(x) * np.sin(y) * np.sin(z),
        -np.sin(x) * np.cos(y) * np.sin(z),
        2 * np.sin(x) * np.sin(y) * np.cos(z),
    ]
    expected = np.sqrt(sum(component**2 for component in curl))
    assert np.abs(demo_picture.vorticity_magnitude(fields) - expected).max() < 2e-4


def test_what_is_printed_leads_where_the_results_are(tmp_path, monkeypatch):
    """`link/..` is the directory that holds what the link points to."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/deep")
    (tmp_path / "far" / "demo").mkdir()
    for path in (Path("link/../demo").absolute(), Path("far/demo").absolute(), Path("link/../demo")):
        assert Path(demo._from_here(path)).samefile("far/demo")
    assert demo._from_here(Path("far/demo").absolute()) == "far/demo"
