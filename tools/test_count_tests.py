"""Facts about tools/count_tests.py."""

from __future__ import annotations

from pathlib import Path

import count_tests

CTEST = """<testsuite>
  <testcase name="base.Crc32c.known_values" status="run"/>
  <testcase name="store.Store.full_disk" status="fail"><failure message="Failed"/></testcase>
  <testcase name="mpi.off" status="notrun"><skipped/></testcase>
  <testcase name="tools.pytest" status="{status}"/>
</testsuite>"""
PYTEST = """<testsuites><testsuite>
  <testcase name="a"/><testcase name="b"/><testcase name="c"><skipped/></testcase>
</testsuite></testsuites>"""


def line(build: Path) -> str:
    return count_tests.closing_line(count_tests.count_build(build))


def write(build: Path, status: str, pytest: str | None) -> Path:
    (build / "ctest.xml").write_text(CTEST.format(status=status))
    if pytest is not None:
        (build / "pytest").mkdir()
        (build / "pytest" / "tools.xml").write_text(pytest)
    return build


def test_pytest_entries_count_as_the_tests_inside(tmp_path):
    assert line(write(tmp_path, "run", PYTEST)) == "3 passed, 1 failed, 2 skipped"


def test_a_pytest_run_without_a_report_is_a_failure(tmp_path):
    assert line(write(tmp_path, "fail", None)) == "1 passed, 2 failed, 1 skipped"


def test_a_pytest_run_that_was_killed_late_is_a_failure(tmp_path):
    assert line(write(tmp_path, "fail", PYTEST)) == "3 passed, 2 failed, 2 skipped"


def test_a_build_without_a_report_is_a_failure(tmp_path):
    assert line(tmp_path) == "0 passed, 1 failed"


def test_what_failed_is_named_with_the_end_of_what_it_said(tmp_path):
    inside = '<testsuite><testcase name="kills"><failure>first\nassert 1 == 2</failure></testcase></testsuite>'
    assert count_tests.failed_tests(write(tmp_path, "fail", inside)) == [
        "ctest: store.Store.full_disk\n",
        "tools: kills\n    first\n    assert 1 == 2",
    ]
    assert count_tests.failed_tests(tmp_path / "no build") == []
