"""Branch coverage of src/ by the unit, device, hostile and fuzz suites: a table, and what no test reaches.

The table is of directories, and what is listed of those that guests and front-ends reach, but for what docs/unreached.md
says may stay. All files are in build-coverage/coverage.txt, and all lines with a branch that was never taken in
build-coverage/unreached.txt.
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys

from check import ROOT, Tally, build, test

DIRECTORY = "build-coverage"
OPTIONS = ["-Dbuildtype=debug", "-Db_coverage=true", "-Dc_args=-fprofile-update=atomic -Dinstantiated=inline"]
SUITES = ["unit", "device", "hostile", "fuzz"]
REACHED_BY_GUESTS = [f"src/{name}/" for name in ("net", "guest", "frame", "virtq", "vhost", "policy", "port", "switch", "worker")]


MAY_STAY = "docs/unreached.md"
LINE = re.compile(r"^(src/\S+?):(?:\d+:)? (never|\d+(?= of \d+))(?: of \d+)? +(.*)$")


def counters(kind):
    return glob.glob(os.path.join(ROOT, DIRECTORY, "**", "*." + kind), recursive=True)


def forget():
    """All counters are empty files that anybody may write to: some tests are run by a user without privileges."""
    for path in counters("gcda"):
        os.unlink(path)
    for path in counters("gcno"):
        path = path.removesuffix("gcno") + "gcda"
        open(path, "wb").close()
        os.chmod(path, 0o666)


def measure():
    for path in counters("gcda"):
        if not os.path.getsize(path):
            os.unlink(path)  # never run
    done = subprocess.run(["gcovr", "--root", ROOT, "--filter", "src/", "--object-directory", DIRECTORY, "--json", "-",
                           "--exclude-throw-branches", DIRECTORY], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["files"]


def taken_least(lines):
    """For file and text of each line how many of its branches were taken, where there are several the fewest."""
    least = {}
    for file, taken, text in (match.groups() for match in map(LINE.match, lines) if match):
        taken = 0 if taken == "never" else int(taken)
        least[file, text] = min(taken, least.get((file, text), taken))
    return least


def missing(unreached):
    """Those of `unreached` that may not stay, and what may but is nowhere in the source any more."""
    with open(os.path.join(ROOT, MAY_STAY), encoding="utf-8") as lines:
        may_stay = taken_least(lines)
    for file, text in may_stay:
        with open(os.path.join(ROOT, file), encoding="utf-8") as source:
            if text not in map(str.strip, source):
                yield f"{MAY_STAY}: not in {file}: {text}"
    for line in unreached:
        (where, taken), = taken_least([line]).items()
        if line.startswith(tuple(REACHED_BY_GUESTS)) and taken < may_stay.get(where, sys.maxsize):
            yield line


def percent(taken, of):
    return f"{100 * taken / of:5.1f} %" if of else "      -"


def main():
    tally = Tally()
    print(f"{DIRECTORY}: {', '.join(SUITES)}", flush=True)
    build(DIRECTORY, OPTIONS)
    forget()
    test(DIRECTORY, SUITES, tally, 4)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")

    rows = collections.defaultdict(lambda: [0, 0, 0, 0])
    unreached = []
    for file in measure():
        row = rows[file["file"]]
        with open(os.path.join(ROOT, file["file"]), encoding="utf-8") as source:
            text = source.read().splitlines()
        for line in file["lines"]:
            if line["gcovr/noncode"]:
                continue
            taken = sum(1 for branch in line["branches"] if branch["count"])
            row[0] += line["count"] > 0
            row[1] += 1
            row[2] += taken
            row[3] += len(line["branches"])
            if not line["count"] or taken < len(line["branches"]):
                never = "never" if not line["count"] else f"{taken} of {len(line['branches'])}"
                unreached.append(f"{file['file']}:{line['line_number']}: {never:7} {text[line['line_number'] - 1].strip()}")
    for path, row in list(rows.items()):
        for i, n in enumerate(row):
            rows[os.path.dirname(path) + "/"][i] += n
            rows["src/"][i] += n
    table = [f"{'':32} {'lines':>7} {'branches':>9} {'not taken':>10}"]
    table += [f"{path:32} {percent(row[0], row[1])} {percent(row[2], row[3]):>9} {row[3] - row[2]:10}"
              for path, row in sorted(rows.items())]
    for name, lines in ("coverage.txt", table), ("unreached.txt", unreached):
        with open(os.path.join(ROOT, DIRECTORY, name), "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
    print("\n".join(line for line in table if line.split()[0].endswith(("/", "lines"))))
    left = list(missing(unreached))
    print("\n".join([f"{len(left)} not reached and not in {MAY_STAY}", *left]))
    return 1 if tally.failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
