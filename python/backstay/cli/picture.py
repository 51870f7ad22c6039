"""Numbers as pictures: half blocks in the terminal (two pixels a character), and files through Matplotlib."""

import numpy as np
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

# Colours at even steps from the lowest to the highest value. One map for values of one sign, dark to light; one for
# values around zero, where zero is nearly white.
ONE_SIGN = ((40, 20, 80), (60, 50, 140), (45, 105, 150), (30, 150, 140), (85, 190, 105), (180, 215, 60), (250, 235, 80))
TWO_SIGNS = (
    (30, 60, 140),
    (80, 130, 200),
    (170, 200, 230),
    (245, 245, 245),
    (245, 190, 160),
    (215, 100, 85),
    (150, 25, 45),
)
UNKNOWN = (90, 90, 90)  # NaN
SHADES = " .:-=+*#%@"  # where there is no colour
LARGEST = 96  # pixels a side in the terminal; more is hard to take in
PLOT_ROWS = 12


def limits(values: np.ndarray) -> tuple:
    """(low, high, is around zero): a picture of both signs has zero in its middle, a curve does not."""
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 1.0, False
    low, high = float(known.min()), float(known.max())
    if values.ndim == 2 and low < 0 < high and max(-low, high) < 4 * min(-low, high):
        return -max(-low, high), max(-low, high), True
    return low, high, False


def _fractions(values: np.ndarray) -> np.ndarray:
    """0 at the lowest, 1 at the highest value, NaN where there is none."""
    low, high, _ = limits(values)
    if high <= low:
        return np.where(np.isnan(values), np.nan, 0.5)
    with np.errstate(all="ignore"):
        return np.clip(values / (high - low) - low / (high - low), 0, 1)


def _resampled(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    i = (np.arange(rows) + 0.5) * values.shape[0] / rows
    j = (np.arange(columns) + 0.5) * values.shape[1] / columns
    return values[np.ix_(i.astype(int), j.astype(int))]


def image(values: np.ndarray, console: Console) -> Text:
    """Rows go upwards, as in the picture file."""
    rows, columns = values.shape
    room = min(console.width - 1, LARGEST), min(2 * max(8, console.height - 5), LARGEST)
    scale = min(room[0] / columns, room[1] / rows)
    rows, columns = (max(2, 2 * round(rows * scale / 2)), max(1, round(columns * scale)))
    fractions = _resampled(_fractions(values), min(rows, room[1] // 2 * 2), min(columns, room[0]))[::-1]
    if console.color_system is None or console.no_color:
        return _shaded(fractions)
    colours = TWO_SIGNS if limits(values)[2] else ONE_SIGN
    out = Text()
    for upper, lower in zip(fractions[::2], fractions[1::2]):
        for a, b in zip(upper, lower):
            out.append("▀", Style(color=_colour(a, colours), bgcolor=_colour(b, colours)))
        out.append("\n")
    out.right_crop(1)
    return out


def _shaded(fractions: np.ndarray) -> Text:
    rows = ["".join("?" if np.isnan(f) else SHADES[int(f * 9.999)] for f in row) for row in fractions[::2]]
    return Text("\n".join(rows))


def _colour(fraction: float, colours: tuple) -> Color:
    if np.isnan(fraction):
        return Color.from_rgb(*UNKNOWN)
    at = fraction * (len(colours) - 1)
    i = min(int(at), len(colours) - 2)
    mixed = (a + (at - i) * (b - a) for a, b in zip(colours[i], colours[i + 1]))
    return Color.from_rgb(*(round(c) for c in mixed))


def plot(values: np.ndarray, console: Console) -> Text:
    """One axis: a curve, a column of the terminal for each of evenly spaced elements."""
    columns = min(console.width - 1, max(len(values), 40), LARGEST)
    fractions = _resampled(_fractions(values)[None, :], 1, columns)[0]
    pixels = np.zeros((2 * PLOT_ROWS, columns), bool)
    before = None
    for x, f in enumerate(fractions):
        if np.isnan(f):
            before = None
            continue
        y = round(f * (2 * PLOT_ROWS - 1))
        low, high = sorted((y, before if before is not None else y))
        pixels[low : high + 1, x] = True  # from the last height to this one, so that the curve does not fall apart
        before = y
    characters = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
    rows = zip(pixels[::-1][::2], pixels[::-1][1::2])
    text = "\n".join("".join(characters[bool(a), bool(b)] for a, b in zip(upper, lower)) for upper, lower in rows)
    return Text(text, style="cyan" if console.color_system else "")


def legend(values: np.ndarray, units: str, console: Console, bar: bool) -> Text:
    low, high, around_zero = limits(values)
    if not np.isfinite(values).any():
        return Text("no finite values")
    out = Text(f"{low:.6g} ")
    steps = np.linspace(0, 1, 20)
    if bar and console.color_system is not None and not console.no_color:
        for f in steps:
            out.append("█", Style(color=_colour(f, TWO_SIGNS if around_zero else ONE_SIGN)))
    else:
        out.append("".join(SHADES[int(f * 9.999)] for f in steps) if bar else "…")
    out.append(f" {high:.6g}{units}")
    missing = int(np.count_nonzero(np.isnan(values)))
    out.append(f"   {missing:,} NaN" if missing else "", Style(dim=True))
    return out


def write(values: np.ndarray, path, title: str, units: str, axes: tuple, step: tuple) -> None:
    """A picture file of the kind that the name's ending says."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if max(map(abs, limits(values)[:2])) > 1e300:  # beyond what Matplotlib can put marks at
        values, units = values / 1e10, f"1e10 {units}"
    low, high, around_zero = limits(values)
    figure = Figure(figsize=(7, 5.6) if values.ndim == 2 else (8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    at = figure.add_subplot()
    if values.ndim == 2:
        extent = (-0.5, values.shape[1] * step[1] - 0.5, -0.5, values.shape[0] * step[0] - 0.5)
        colours = "RdBu_r" if around_zero else "viridis"
        drawn = at.imshow(
            values,
            origin="lower",
            cmap=colours,
            vmin=low,
            vmax=high,
            extent=extent,
            interpolation="nearest",
            aspect=_aspect(values),
        )
        figure.colorbar(drawn, label=units.replace("$", r"\$"))
        at.set_ylabel(f"axis {axes[0]}")
    else:
        at.plot(np.arange(len(values)) * step[0], values, linewidth=1)
        at.set_ylabel(units.replace("$", r"\$"))
        at.grid(alpha=0.3)
    at.set_xlabel(f"axis {axes[-1]}")
    at.set_title(title.replace("$", r"\$"), fontsize=10)
    figure.savefig(path, dpi=150)


def _aspect(values: np.ndarray) -> str:
    """Square elements, unless that would leave a thread of a picture."""
    rows, columns = values.shape
    return "equal" if max(rows, columns) <= 8 * min(rows, columns) else "auto"
