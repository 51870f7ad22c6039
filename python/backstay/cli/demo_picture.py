"""The picture that `backstay demo` ends with: the curve of both runs, and a slice of the flow from a checkpoint."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # to a file, also where there is no screen
import matplotlib.pyplot as plt
import numpy as np

# The largest dissipation rate of the vortex at Reynolds 1600 in a spectral simulation with 512 modes a side:
# van Rees, Leonard, Pullin and Koumoutsakos, J. Comput. Phys. 230 (2011) 2794.
REFERENCE_TIME, REFERENCE_PEAK = 9.0, 0.0129

INK, FAINT, LINE, DOT, LOSS = "#22272e", "#8b949e", "#1f6f8b", "#e8833a", "#c0392b"
MENDED = "#6c4ab6"
STYLE = {
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Scene:
    """What is drawn. Call c of checkpoint() is at step c - 1; `fields` are indexed z, y, x."""

    calm: dict[str, np.ndarray]
    struck: dict[str, np.ndarray]
    dt: float
    partner_calls: list[int]
    shared_calls: list[int]
    kill_call: int
    loss_call: int
    mended: dict[str, np.ndarray] | None  # where ranks were replaced
    resume_call: int | None
    n: int
    fields: dict[str, np.ndarray]
    fields_step: int

    def time(self, call: int) -> float:
        return (call - 1) * self.dt


def read_curve(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file of tgv."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def vorticity_magnitude(fields: dict[str, np.ndarray]) -> np.ndarray:
    """|curl u| by fourth-order central differences in the periodic cube of side 2 pi; indexed z, y, x."""
    spacing = 2 * np.pi / fields["density"].shape[0]
    velocity = [fields[f"momentum_{axis}"] / fields["density"] for axis in "xyz"]

    def along(component: int, axis: int) -> np.ndarray:
        dimension = 2 - axis
        near, far = (
            np.roll(velocity[component], -s, dimension) - np.roll(velocity[component], s, dimension) for s in (1, 2)
        )
        return (8 * near - far) / (12 * spacing)

    x = along(2, 1) - along(1, 2)
    y = along(0, 2) - along(2, 0)
    z = along(1, 0) - along(0, 1)
    return np.sqrt(x * x + y * y + z * z)


def draw(scene: Scene, path: Path) -> Path:
    """Writes the picture and gives its path."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), width_ratios=[1.45, 1], layout="constrained")
        _draw_curve(left, scene)
        _draw_slice(figure, right, scene)
        figure.savefig(path, dpi=140, facecolor="white")
        plt.close(figure)
    return path


def _draw_curve(axes: plt.Axes, scene: Scene) -> None:
    calm, struck = scene.calm, scene.struck
    top = 1.25 * max(calm["dissipation"].max(), min(REFERENCE_PEAK, 2 * calm["dissipation"].max()))
    axes.plot(calm["time"], calm["dissipation"], color=LINE, lw=2.2, label="undisturbed run")
    dots = slice(None, None, max(1, len(struck["time"]) // 45))
    axes.plot(struck["time"][dots], struck["dissipation"][dots], "o", ms=4, color=DOT, label="killed and resumed run")
    if scene.mended:
        mended, dots = scene.mended, slice(dots.step // 2, None, dots.step)
        axes.plot(mended["time"][dots], mended["dissipation"][dots], "x", ms=5, color=MENDED, label="repaired run")
        _mark_repair(axes, scene, top)
    if REFERENCE_TIME <= calm["time"][-1]:
        axes.plot(REFERENCE_TIME, REFERENCE_PEAK, "*", ms=11, color=INK, label="peak in the literature, 512³ points")
    for calls, height, marker, name in (
        (scene.partner_calls, 0.05, "^", "partner"),
        (scene.shared_calls, 0.02, "s", "shared"),
    ):
        times = [scene.time(call) for call in calls]
        axes.plot(times, [height * top] * len(times), marker, ms=5, color=FAINT, label=f"checkpoint at level {name}")
    _mark_loss(axes, scene, top)
    axes.set(xlim=(0, calm["time"][-1]), ylim=(0, top), xlabel="time", ylabel="dissipation rate of kinetic energy")
    axes.set_title(f"The same curve, with and without losses ({scene.n}³ points, 8 ranks)")
    axes.legend(frameon=False, loc="upper left", fontsize=9)


def _mark_loss(axes: plt.Axes, scene: Scene, top: float) -> None:
    lost = scene.time(scene.kill_call)
    axes.axvline(lost, color=LOSS, lw=1.4, ls=(0, (4, 2)))
    axes.text(lost, 0.30 * top, " node 1 is lost:\n 2 ranks, 1 directory", color=LOSS, va="center", fontsize=9)
    if scene.resume_call is None:
        return
    back = scene.time(scene.resume_call)
    arrow = {"arrowstyle": "->", "color": LOSS, "lw": 1.4}
    axes.annotate("", xy=(back, 0.14 * top), xytext=(lost, 0.14 * top), arrowprops=arrow)
    axes.text(lost, 0.14 * top, " resumed from its partner's copies", color=LOSS, va="center", fontsize=9)


def _mark_repair(axes: plt.Axes, scene: Scene, top: float) -> None:
    lost = scene.time(scene.loss_call)
    axes.plot([lost, lost], [0, 0.5 * top], color=MENDED, lw=1.4, ls=(0, (4, 2)))  # below the legend
    axes.text(lost, 0.3 * top, "2 ranks are lost, \nand replaced ", color=MENDED, ha="right", va="center", fontsize=9)


def _draw_slice(figure: plt.Figure, axes: plt.Axes, scene: Scene) -> None:
    size = vorticity_magnitude(scene.fields)
    plane = size[:, :, 0]  # x = 0: two symmetry planes of the vortex cross here
    plane = np.pad(plane, (0, 1), mode="wrap")  # the cube is periodic: its last face is its first
    brightest = np.percentile(plane, 98)  # a few points far above the rest would leave all else dark
    image = axes.imshow(
        plane, origin="lower", extent=(0, 2, 0, 2), cmap="inferno", interpolation="bicubic", vmin=0, vmax=brightest
    )
    axes.set(xlabel="y / π", ylabel="z / π", xticks=[0, 1, 2], yticks=[0, 1, 2])
    axes.set_title(f"Vorticity at x = 0, t = {scene.fields_step * scene.dt:.1f}, read from a checkpoint")
    bar = figure.colorbar(image, ax=axes, shrink=0.9, extend="max", label="|curl u|")
    bar.outline.set_visible(False)
