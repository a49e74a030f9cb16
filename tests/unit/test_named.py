#!/usr/bin/env python3
"""What the documents name is there: functions, files and lines of the sources, and tests."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = r"`([\w/.]+)`"
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]
from coverage import missing  # noqa: E402
from rig.tap import Tap  # noqa: E402


def rows():
    """Of the threat model: attempt, what happens, where, test."""
    lines = (ROOT / "docs" / "threat-model.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return [row for row in cells if len(row) == 4 and row[0] != "attempt" and not row[0].startswith("---")]


def is_there(name, sources):
    if "." in name:
        return any(str(path).endswith("/" + name) for path in sources)
    return any(re.search(rf"\b{name}\b", text) for text in sources.values())


def main():
    tap = Tap()
    sources = {path: path.read_text() for path in (ROOT / "src").rglob("*.[ch]")}
    with tap.test("each attempt has an answer that is in the sources"):
        assert len(rows()) > 20, len(rows())
        for attempt, answer, where, _ in rows():
            assert answer, attempt
            for name in re.findall(NAME, where):
                assert is_there(name, sources), f"{attempt}: there is no {name}"
    with tap.test("each attempt has a test that exists"):
        for attempt, _, _, tests in rows():
            files = re.findall(r"`(\w+/\w+\.\w+)`([^;]*)", tests)
            assert files, f"{attempt}: no test is named"
            for name, cases in files:
                path = ROOT / "tests" / name
                assert path.is_file(), f"{attempt}: there is no {name}"
                for case in re.findall(r"`(\w+)`", cases):
                    assert re.search(rf"\({case}[,)]", path.read_text()), f"{attempt}: {name} has no {case}"
    with tap.test("the way of a frame leads through functions that are there"):
        names = re.findall(NAME, (ROOT / "docs" / "life-of-a-frame.md").read_text())
        assert len(names) > 30, len(names)
        for name in names:
            assert is_there(name, sources), f"there is no {name}"
    with tap.test("what may stay unreached by tests is a line of the sources"):
        gone = list(missing([]))
        assert not gone, gone
    tap.plan()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
