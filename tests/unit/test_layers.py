#!/usr/bin/env python3
"""Each directory of the sources includes only what src/meson.build lets it have."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The driver shares the protocol's bytes with the device, the kit what features are called, and nothing else.
SHARED = (("driver", "vhost/wire.h"), ("conform", "vhost/features.h"))
sys.path.insert(0, str(ROOT))
from rig.tap import Tap  # noqa: E402


def layers():
    """Of each directory all those that it may include, itself among them."""
    table = {}
    for line in re.findall(r"^  \[(.*)\]", (ROOT / "src" / "meson.build").read_text(), re.M):
        name, *needs = re.findall(r"'(\w+)'", line)
        table[name] = {name}.union(*(table[other] for other in needs))
    table["cmd"] = {"cmd", *table}
    return table


def main():
    tap = Tap()
    table = layers()
    with tap.test("every directory is in the table"):
        folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
        assert set(table) == folders, set(table) ^ folders
    for name, allowed in table.items():
        with tap.test(f"{name} includes nothing above it"):
            for path in (ROOT / "src" / name).glob("*.[ch]"):
                for file in re.findall(r'^#include "(.*)"', path.read_text(), re.M):
                    assert file.split("/")[0] in allowed or (name, file) in SHARED, f"{path.name} includes {file}"
    tap.plan()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
