"""A test's results in the Test Anything Protocol, which meson reads: one line a behaviour, details as comments."""
import argparse
import signal
import sys
import traceback
from contextlib import contextmanager

from rig import RigError


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0
        self.report = None

    def _point(self, result, name):
        self.count += 1
        print(f"{result} {self.count} - {name}", flush=True)

    def note(self, text):
        for line in str(text).splitlines():
            print(f"# {line}", flush=True)

    @contextmanager
    def reporting(self, report):
        """Within the block, each failure is followed by what `report` returns."""
        self.report = report
        try:
            yield
        finally:
            self.report = None

    @contextmanager
    def subject(self, name, make, begin):
        """What is tested: made and begun with as a point of its own, None if it was not made, and closed in the end."""
        subject = None
        with self.test(name):
            subject = make()
            self.report = subject.report
            begin(subject)
        try:
            yield subject
        finally:
            self.report = None
            if subject:
                subject.close()

    @contextmanager
    def test(self, name):
        """One behaviour: it is there if the block ends without an exception."""
        try:
            yield
        except Exception as error:
            self.failed += 1
            self._point("not ok", name)
            self.note(error if isinstance(error, RigError) else traceback.format_exc())
            for note in getattr(error, "__notes__", []):
                self.note(note)
            if self.report:
                self.note(self.report())
        else:
            self._point("ok", name)

    def skip(self, name, reason):
        self._point("ok", f"{name} # SKIP {reason}")

    def plan(self):
        print(f"1..{self.count}", flush=True)


def main(description, body, add_arguments=lambda parser: None):
    """A test program: `body(tap, arguments)` makes its points; ends with the exit status of the whole."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("binary", help="the ringway to test")
    add_arguments(parser)
    arguments = parser.parse_args()
    # meson ends a test that takes too long; go through the clean-up of all that is running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    tap = Tap()
    try:
        body(tap, arguments)
    except RigError as error:
        for note in getattr(error, "__notes__", []):
            tap.note(note)
        print(f"Bail out! {error}", flush=True)
        sys.exit(1)
    tap.plan()
    sys.exit(1 if tap.failed else 0)
