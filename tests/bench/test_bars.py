"""How `./dev bench` judges: the worst row decides, and a bar that nothing was measured for is not met."""

from pathlib import Path

import run


def row(what, **figures):
    return {"what": what, "store": "shm", "mib": 64, "arrays": 1, "ranks": 4, **figures}


def line_of(rows, name):
    (line,) = [line for line in run.bar_lines(rows)[0] if line.startswith(name + " ")]
    return line


def test_worst_row_decides_and_the_median_stands_beside_it():
    rows = [row("local", durable_per_limit=value) for value in (0.5, 0.6, 0.9)]
    assert line_of(rows, "durable-local-shm").startswith("durable-local-shm 0.900 0.8 short (2 of 3 met, median 0.600;")
    assert line_of(rows[:2], "durable-local-shm").startswith("durable-local-shm 0.600 0.8 ok (2 of 2 met")


def test_bar_from_below_has_the_smallest_for_its_worst():
    rows = [row("shared-one-file", phdf5_per_durable=value) for value in (3.0, 1.5)]
    assert line_of(rows, "phdf5-collective-per-one-file-shm").startswith(
        "phdf5-collective-per-one-file-shm 1.500 2.0 short"
    )


def test_bar_without_a_measurement_is_short():
    lines, good = run.bar_lines([])
    assert not good and all(line.endswith("short (not measured)") for line in lines)


def test_all_met_is_said_only_when_all_are():
    figures = {"blocked_per_copy": 1, "durable_per_limit": 0.7, "durable_per_ws": 1, "resume_per_read": 1}
    rows = [row(level, **figures, phdf5_per_durable=2.5) for level in run.LEVELS]
    rows = [r | {"store": store} for r in rows for store in ("shm", "disk")]
    tgv = {"what": "tgv", "store": "shm", "ranks": 2, "n": 128, "steps": 40, "longer": 1.01}
    rows += [
        {"what": "arithmetic", "store": "shm", "k": 7, "p": 1, "block_kib": 64, "speed": 0.95},
        {
            "what": "rebuild",
            "store": "shm",
            "ranks": 8,
            "mib": 64,
            "lost": 1,
            "rebuild_per_limit": 1.5,
            "resume_per_scr": 0.4,
        },
        row("repair", median=0.2, worst=1.0, times_faster_without_pause=6),
        row("init", n=64, alone_per_plain=0.5, alone_per_recorded_cpu=0.9, log_per_static=0.05),
        {"what": "computation", "store": "shm", "ranks": 1, "loop_ns": 20, "access_ns": 0.1},
        {"what": "replay", "store": "shm", "ranks": 1, "ms_per_1000": 0.5},
        {"what": "tea2d", "store": "shm", "ranks": 1, "bytes_per_least": 1.0, "bytes_per_state": 0.05},
        {"what": "clover3d", "store": "shm", "ranks": 8, "bytes_per_least": 1.01, "bytes_per_state": 0.17},
        {"what": "information", "store": "shm", "ranks": 1, "none_per_least": 1.02, "told_per_least": 1.0},
        {"what": "information", "store": "shm", "ranks": 1, "tgv_per_state": 0.077, "tea2d_per_state": 0.05},
        {"what": "information", "store": "shm", "ranks": 1, "clover3d_per_state": 0.17},
        {"what": "blocked", "store": "shm", "ranks": 4, "blocked_per_step": 0.04},
        {"what": "restored", "store": "shm", "ranks": 4, "restored_per_read": 1.2},
        {"what": "declarations", "store": "shm", "ranks": 1, "percent": 0.01},
        {"what": "checked", "store": "shm", "ranks": 2, "checked_per_plain": 12, "found": 0},
        tgv | {"what": "weight", "longer": 1.0},
    ]
    assert run.bar_lines([*rows, tgv])[1]
    assert not run.bar_lines([*rows, tgv | {"longer": 1.03}])[1]
    assert not run.bar_lines([*rows[:-1], tgv])[1]
    assert not run.bar_lines([*(r | {"found": 1} if r["what"] == "checked" else r for r in rows), tgv])[1]


def test_sizes_that_do_not_fit_are_left_out_with_a_reason():
    assert "--most-on-disk is 64" in run.too_large(Path("/disk"), 4, 256, 64)
    assert "MiB of memory" in run.too_large(run.SHM, 1 << 20, 256, 256)
    assert run.too_large(run.SHM, 1, 1, 256) == ""
