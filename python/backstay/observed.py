"""What became of an array in the steps that `backstay advise` looked at, as a session tells it."""

from __future__ import annotations

LEFT_OUT, PERHAPS, NOT_KNOWN = "overwritten first", "overwritten where seen", "not known"
# The worst first: what one rank, or one of several arrays, needs has to be saved.
ORDER = (
    "read first", "read first in part", "never written", "overwritten in part", NOT_KNOWN, "not touched", PERHAPS,
    LEFT_OUT,
)  # fmt: skip


def fate(event: dict) -> str:
    """One of ORDER. In doubt it is live."""
    count = {name: int(event.get(name, 0)) for name in ("bytes", "overwritten", "read", "untouched")}
    if count["overwritten"] == count["bytes"] > 0:
        return LEFT_OUT
    if count["read"]:
        if event.get("written") == "never":
            return "never written"
        return "read first in part" if count["overwritten"] else "read first"
    if count["untouched"] == count["bytes"]:
        return "not touched"
    if not count["overwritten"]:
        return NOT_KNOWN
    return "overwritten in part" if count["untouched"] else PERHAPS
