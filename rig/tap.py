"""A test's results in the Test Anything Protocol, which meson reads: one line a behaviour, details as comments."""
import signal
import sys
import traceback
from contextlib import contextmanager


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0
        self.report = None  # called after a failure, returns text that helps to explain it
        # meson ends a test that takes too long; go through the clean-up of all that is running.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))

    def _point(self, result, name):
        self.count += 1
        print(f"{result} {self.count} - {name}", flush=True)

    def note(self, text):
        for line in str(text).splitlines():
            print(f"# {line}", flush=True)

    @contextmanager
    def test(self, name):
        """One behaviour: it is there if the block ends without an exception."""
        try:
            yield
        except Exception as error:
            self.failed += 1
            self._point("not ok", name)
            self.note(f"{type(error).__name__}: {error}")
            self.note(traceback.format_exc())
            if self.report:
                self.note(self.report())
        else:
            self._point("ok", name)

    def skip(self, name, reason):
        self._point("ok", f"{name} # SKIP {reason}")

    def done(self):
        """Prints the plan and returns the exit status."""
        print(f"1..{self.count}", flush=True)
        return 1 if self.failed else 0
