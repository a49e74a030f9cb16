#!/usr/bin/env python3
"""What `make install` puts where, and that it fits together."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from rig import check
from rig.tap import main

FILES = {"bin/ringway", "share/man/man8/ringway.8", "lib/systemd/system/ringway.service",
         "share/doc/ringway/examples/ringway.conf"}


def body(tap, arguments):
    build = Path(arguments.binary).resolve().parent
    root = Path(tempfile.mkdtemp(prefix="ringway-install-"))
    try:
        with tap.test("binary, manual, unit and example are installed below DESTDIR, and nothing else"):
            subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"],
                           env={**os.environ, "DESTDIR": str(root)}, check=True, stdout=subprocess.DEVNULL)
            paths = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
            prefix = os.path.commonpath(paths)
            names = {str(path.relative_to(prefix)) for path in paths}
            check(names == FILES, f"missing {FILES - names}, too many {names - FILES}")
        installed = root / prefix
        version = subprocess.run([installed / "bin/ringway", "version"], capture_output=True, text=True, check=True)
        with tap.test("the manual is of the same version, and has no gap left to fill"):
            page = (installed / "share/man/man8/ringway.8").read_text()
            check(version.stdout.strip() in page and "@" not in page, version.stdout)
        with tap.test("the unit starts the binary that was installed, and again when it fails"):
            unit = (installed / "lib/systemd/system/ringway.service").read_text()
            start = re.search(r"^ExecStart=(\S+) run ", unit, re.M)
            check(start and start[1] == f"/{prefix}/bin/ringway", str(start))
            for line in ("Type=notify", "Restart=on-failure"):
                check(f"\n{line}\n" in unit, f"no {line}")
        with tap.test("the example is a configuration file that the binary understands"):
            config = (installed / "share/doc/ringway/examples/ringway.conf").read_text()
            commands = re.sub(r"^#\s*(?=port add |run )", "", config, flags=re.M).replace("/run/ringway", str(root))
            (root / "ringway.conf").write_text(commands + "frob\n")
            lines = commands.count("\n")
            run = subprocess.run([installed / "bin/ringway", "run", "-f", root / "ringway.conf", "--control",
                                  root / "control.sock"], capture_output=True, text=True, timeout=30)
            check(run.stderr.startswith(f"{root}/ringway.conf:{lines + 1}: "), run.stderr)
            check("port add" in commands, "it has no port")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main(__doc__, body)
