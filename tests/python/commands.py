"""Runs a command of the command line in this process, and gives what it wrote."""

import io
import json
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from backstay.cli import main
from backstay.launch import Signals


@dataclass
class Ended:
    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out, parse_constant=lambda word: f"not JSON: {word}")


def backstay(*arguments, columns=200):
    out, err = io.StringIO(), io.StringIO()
    environment = {"COLUMNS": str(columns), "BACKSTAY_DIR": "", "NO_COLOR": "1", "TERM": "dumb"}
    # `backstay run` leaves signals ignored, as its process ends; this one starts those of other tests.
    handlers = {number: signal.getsignal(number) for number in Signals.ASKED}
    try:
        with mock.patch.dict("os.environ", environment), redirect_stdout(out), redirect_stderr(err):
            status = main([str(argument) for argument in arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    sys.stdout.flush()
    return Ended(status, out.getvalue(), err.getvalue())


def sentence_of(ended, status=1):
    """The one sentence on stderr of a command that failed."""
    assert ended.status == status, ended
    text = ended.err.strip()
    assert text.startswith("backstay: ") and "Traceback" not in text and "\n" not in text, ended
    return text
