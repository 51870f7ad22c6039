"""For all tests: time in which the whole machine stands still, as one that is shared may for a minute, does not count
against the time-outs of the processes that they start."""

import subprocess
import threading
import time


class Clock:
    """Like time.monotonic(), but a gap in which this process was not run at all counts as a second."""

    longest = 1.0  # seconds

    def __init__(self):
        self.stood_still, self.seen = 0.0, time.monotonic()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self):
        while True:
            time.sleep(0.2)
            now = time.monotonic()
            self.stood_still, self.seen = self.stood_still + max(0.0, now - self.seen - self.longest), now

    def __call__(self):
        now, seen, stood_still = time.monotonic(), self.seen, self.stood_still
        return now - stood_still - max(0.0, now - seen - self.longest)


subprocess._time = Clock()  # what subprocess.run(timeout=) and its kin go by
