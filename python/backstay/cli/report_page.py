"""The page that `backstay report` writes: HTML with drawings in SVG, which needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import count

from ..history import History, Loss, human_bytes, human_seconds

WIDTH, LEFT, RIGHT = 960, 110, 16
STEPS, ROW = 190, 26
COLOURS = {"memory": "#6c4ab6", "local": "#1f6f8b", "partner": "#3a7d44", "shared": "#b8672a"}
OTHER, LOSS, FAINT = "#57606a", "#c0392b", "#8b949e"

STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p.what{margin:.2rem 0 1.2rem;opacity:.75}
dl{display:flex;flex-wrap:wrap;gap:.6rem 2.2rem;margin:0}
dt{font-size:.8rem;opacity:.7}dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8b949e55;vertical-align:top}
th{font-weight:600;font-size:.85rem}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
svg{width:100%;height:auto;display:block}svg{fill:currentColor}svg text{font:11px system-ui,sans-serif}
footer{margin-top:2.5rem;font-size:.85rem;opacity:.7}
"""


def page(history: History) -> str:
    title = f"{history.program or 'A job'} on {history.ranks} ranks"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="what">{escape(history.directory)} · {escape(history.state)}</p>',
        _tiles(history),
        "<h2>Time line</h2>",
        _time_line(history),
        "<h2>Levels</h2>",
        _levels(history),
        "<h2>Failures</h2>",
        _failures(history),
        _given_up(history),
        "<footer>Written by backstay report. Times are seconds since the run began; what was computed between the last "
        "line and a loss had to be computed again. Only failures that end a launch, or are repaired, are known "
        "here.</footer></body></html>",
    ]
    return "\n".join(part for part in parts if part)


def _tiles(history: History) -> str:
    share = 100 * (history.stood_still + history.lost_work) / history.seconds if history.seconds > 0 else 0
    tiles = [
        ("ran for", human_seconds(history.seconds)),
        ("launches", str(history.launches)),
        ("lines", str(len({commit.line for commit in history.commits}))),
        ("written", human_bytes(sum(commit.bytes for commit in history.commits))),
        ("failures", str(len(history.losses))),
        ("stood still", human_seconds(history.stood_still)),
        ("computed again", human_seconds(history.lost_work)),
        ("lost of the time", f"{share:.2g} %" if share < 99.5 else f"{share:.0f} %"),
    ]
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles) + "</dl>"


# ---- the time line ----------------------------------------------------------------------------------------------


def _time_line(history: History) -> str:
    levels = [level.level for level in history.levels]
    height = STEPS + ROW * len(levels) + 34
    span = max(history.seconds, 1e-9)

    def x(time: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(time / span, 0), 1)

    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Steps, checkpoints and failures over time">']
    parts += _gaps(history, x, height - 24)
    parts += _steps(history, x)
    for row, level in enumerate(levels):
        parts += _row(history, level, x, STEPS + ROW * row + ROW / 2)
    parts += _axis(span, x, height - 24)
    return "".join(parts) + "</svg>"


def _gaps(history: History, x, bottom: float) -> list[str]:
    out = []
    for loss in history.losses:
        if loss.back is not None:
            wide = max(1.0, x(loss.back) - x(loss.time))
            out.append(f'<rect x="{x(loss.time):.1f}" y="8" width="{wide:.1f}" height="{bottom - 8:.0f}" fill="{LOSS}" '
                       'opacity=".12"/>')  # fmt: skip
        out.append(f'<line x1="{x(loss.time):.1f}" x2="{x(loss.time):.1f}" y1="8" y2="{bottom:.0f}" stroke="{LOSS}" '
                   f'stroke-dasharray="4 3"><title>{escape(_story(loss))}</title></line>')  # fmt: skip
    return out


def _steps(history: History, x) -> list[str]:
    """Calls of checkpoint() over time, as far as lines and restarts tell, broken at each loss."""
    captures = {(c.line, c.call): (c.began, c.call, False) for c in reversed(history.commits)}  # at its first level
    points = sorted([*captures.values(), *((*start, True) for start in history.starts)])
    most = max((call for _, call, _ in points), default=0) or 1

    def y(call: int) -> float:
        return STEPS - 14 - (STEPS - 34) * call / most

    parts, runs = [], []
    for time, call, begins in points:
        if begins or not runs:
            runs.append([])
        runs[-1].append(f"{x(time):.1f},{y(call):.1f}")
    for run in runs:
        parts.append(f'<polyline points="{" ".join(run)}" fill="none" stroke="{OTHER}" stroke-width="1.6"/>')
    for value in (0, most):
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.0f}" text-anchor="end">{value}</text>')
    parts.append(f'<text x="{LEFT - 8}" y="{(y(0) + y(most)) / 2:.0f}" text-anchor="end">steps</text>')
    return parts


def _row(history: History, level: str, x, middle: float) -> list[str]:
    colour = COLOURS.get(level, OTHER)
    out = [
        f'<text x="{LEFT - 8}" y="{middle + 4:.0f}" text-anchor="end">{escape(level)}</text>',
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle}" y2="{middle}" stroke="{FAINT}" opacity=".35"/>',
    ]
    for c in history.commits:
        if c.level == level:
            wide = max(2.0, x(c.time) - x(c.began))
            text = f"line {c.line}, call {c.call}: {human_bytes(c.bytes)} in {human_seconds(c.seconds)}"
            out.append(f'<rect x="{x(c.began):.1f}" y="{middle - 7}" width="{wide:.1f}" height="14" fill="{colour}">'
                       f"<title>{escape(text)}</title></rect>")  # fmt: skip
    for g in history.given_up:
        if g["level"] == level:
            why = f"<title>{escape(g['why'])}</title>"
            out.append(
                f'<text x="{x(g["time"]):.1f}" y="{middle + 4}" text-anchor="middle" fill="{LOSS}">✕{why}</text>'
            )
    return out


def _axis(span: float, x, y: float) -> list[str]:
    out = [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="{FAINT}"/>']
    step = next(s for s in _round_times() if span / s <= 8)
    for number in range(int(span / step) + 1):
        text = human_seconds(number * step) if number else "0"
        out.append(f'<text x="{x(number * step):.1f}" y="{y + 16}" text-anchor="middle">{text}</text>')
    return out


def _round_times() -> Iterator[float]:
    """Seconds, minutes, hours and days that are easy to read, smallest first."""
    for power in range(-9, 2):
        yield from (digit * 10.0**power for digit in (1, 2, 5) if digit * 10.0**power < 60)
    yield from (60.0 * minutes for minutes in (1, 2, 5, 10, 30))
    yield from (3600.0 * hours for hours in (1, 2, 6, 12))
    yield from (86400.0 * 2**i for i in count())


# ---- the tables -------------------------------------------------------------------------------------------------


def _levels(history: History) -> str:
    head = ("level", "lines", "given up", "bytes", "to be whole (median)", "bytes a second (median)")
    rows = [
        (s.level, s.lines, s.given_up, human_bytes(s.bytes), human_seconds(s.seconds), human_bytes(s.bytes_per_second))
        for s in history.levels
    ]
    return _table(head, rows) if rows else "<p>No line became whole.</p>"


def _failures(history: History) -> str:
    head = ("when", "what", "how it came back", "stood still", "computed again")
    unknown = "not known"
    rows = [
        (
            human_seconds(loss.time), loss.what, loss.how + (f" at level {loss.level}" if loss.level else ""),
            human_seconds(loss.stood_still) if loss.stood_still is not None else "",
            human_seconds(loss.lost_work) if loss.lost_work is not None else unknown if loss.back is not None else "",
        )
        for loss in history.losses
    ]  # fmt: skip
    return _table(head, rows) if rows else "<p>None.</p>"


def _given_up(history: History) -> str:
    if not history.given_up:
        return ""
    rows = [(human_seconds(g["time"]), g["why"]) for g in history.given_up]
    return "<h2>Lines that were given up</h2>" + _table(("when", "why"), rows)


def _story(loss: Loss) -> str:
    return f"{loss.what}: {loss.how}"


def _table(head: tuple, rows: list) -> str:
    numeric = [all(str(row[i])[:1].isdigit() or not str(row[i]) for row in rows) for i in range(len(head))]

    def cells(row: tuple, tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if numeric[i] else ''}>{escape(str(value))}</{tag}>" for i, value in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><tr>{cells(head, 'th')}</tr>{body}</table>"
