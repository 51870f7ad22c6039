"""Prints the end of `./dev test`: what failed, and how many tests passed, failed and were skipped.

Reads BUILD/ctest.xml of every build directory named. A ctest entry that ran pytest (NAME.pytest) counts as the tests
inside it, which pytest wrote to BUILD/pytest/NAME.xml; if it left no such file, it counts as one failed test.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def outcome(case: ElementTree.Element) -> str:
    """What became of one test case: passed, failed or skipped."""
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def count_pytest(report: Path) -> Counter[str]:
    """The tests of one pytest run."""
    if not report.exists():
        return Counter(failed=1)
    return Counter(outcome(case) for case in ElementTree.parse(report).iter("testcase"))


def count_build(build: Path) -> Counter[str]:
    """The tests of one build directory; one failed test if ctest left no report."""
    report = build / "ctest.xml"
    if not report.exists():
        return Counter(failed=1)
    total: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "")
        if not name.endswith(".pytest"):
            total[outcome(case)] += 1
            continue
        inside = count_pytest(build / "pytest" / (name.removesuffix(".pytest") + ".xml"))
        if outcome(case) == "failed" and not inside["failed"]:
            inside["failed"] += 1  # killed by ctest's time-out, or it stopped after the report
        total += inside
    return total


def complaint(case: ElementTree.Element) -> str:
    """The end of what a failed test said."""
    said = [element.text or "" for kind in ("failure", "error", "system-out") for element in case.findall(kind)]
    return "\n".join(f"    {line[:200]}" for line in "\n".join(said).strip().splitlines()[-20:])


def failed_tests(build: Path) -> list[str]:
    """A name and the end of what it said, for each; those inside a pytest entry by their own names."""
    reports = [build / "ctest.xml", *sorted((build / "pytest").glob("*.xml"))]
    return [
        f"{report.stem}: {case.get('name')}\n{complaint(case)}"
        for report in reports
        if report.exists()
        for case in ElementTree.parse(report).iter("testcase")
        if outcome(case) == "failed" and not case.get("name", "").endswith(".pytest")
    ]


def closing_line(total: Counter[str]) -> str:
    line = f"{total['passed']} passed, {total['failed']} failed"
    return line + (f", {total['skipped']} skipped" if total["skipped"] else "")


if __name__ == "__main__":
    for failed in (failed for build in sys.argv[1:] for failed in failed_tests(Path(build))):
        print(f"failed: {failed}")
    print(closing_line(sum((count_build(Path(build)) for build in sys.argv[1:]), Counter())))
