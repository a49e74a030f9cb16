#!/usr/bin/env python3
"""The threat model names what stops each attempt, and the tests that show it; all of these exist."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from rig.tap import Tap  # noqa: E402


def rows():
    """attempt, what happens, where, test"""
    lines = (ROOT / "docs" / "threat-model.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return [row for row in cells if len(row) == 4 and row[0] != "attempt" and not row[0].startswith("---")]


def main():
    tap = Tap()
    sources = {path: path.read_text() for path in (ROOT / "src").rglob("*.[ch]")}
    with tap.test("each attempt has an answer that is in the sources"):
        assert len(rows()) > 20, len(rows())
        for attempt, answer, where, _ in rows():
            assert answer, attempt
            for name in re.findall(r"`([\w/.]+)`", where):
                found = any(str(path).endswith("/" + name) for path in sources) if "." in name else \
                    any(re.search(rf"\b{name}\b", text) for text in sources.values())
                assert found, f"{attempt}: there is no {name}"
    with tap.test("each attempt has a test that exists"):
        for attempt, _, _, tests in rows():
            files = re.findall(r"`(\w+/\w+\.\w+)`([^;]*)", tests)
            assert files, f"{attempt}: no test is named"
            for name, cases in files:
                path = ROOT / "tests" / name
                assert path.is_file(), f"{attempt}: there is no {name}"
                for case in re.findall(r"`(\w+)`", cases):
                    assert re.search(rf"\({case}[,)]", path.read_text()), f"{attempt}: {name} has no {case}"
    tap.plan()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
