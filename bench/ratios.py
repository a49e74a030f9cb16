"""What compare.py makes of its runs: one row for a cell, a peer and a class of runs; and the table of them."""
import collections
import statistics

FIRST = "ringway"
ITSELF = "itself"  # measured twice: what differs is noise
# Ringway's cells beside its own, with this in place of what they have: packed rings beside split ones.
OWN = {"its split": {"ring": "split"}, "its 1 MAC": {"macs": 1}, "its 1 queue": {"queues": 1}}
NOISY = "noisy"  # the class of runs during which others had the CPUs, too
SWITCH_BOUND = 0.95  # busy for so much of the time: the frames per second are the switch's
FIGURES = ("cycles_per_frame", "frames_per_s", "burst", "busy")


def spread(values):
    """[median, least, greatest]; None if there are none."""
    return [statistics.median(values), min(values), max(values)] if values else None


def summarise(passes):
    """`passes` is a list of {cell: {side: [run, ...]}}."""
    cells = list(dict.fromkeys(cell for one in passes for cell in one))
    rows = []
    for cell in cells:
        sides = list(dict.fromkeys(side for one in passes for side in one.get(cell, {})))
        for peer in [side for side in sides if side != FIRST]:
            rows += rows_of(cell, peer, [(one[cell].get(FIRST, []), one[cell].get(peer, [])) for one in passes if cell in one])
        for name, part in OWN.items():
            other = cell._replace(**part)
            if other != cell:
                rows += rows_of(cell, name, [(one[cell].get(FIRST, []), one[other].get(FIRST, []))
                                             for one in passes if cell in one and other in one])
    return rows


def rows_of(cell, peer, pairs):
    """`pairs` has the runs of both for each pass. Without a quiet pair there is one row of all runs, called noisy."""
    by_class = collections.defaultdict(list)
    for pair in pairs:
        for kind in {run["class"] for runs in pair for run in runs} - {NOISY}:
            alike = [[run for run in runs if run["class"] == kind] for runs in pair]
            if all(alike):
                by_class[kind].append(alike)
    if not by_class and any(all(pair) for pair in pairs):
        by_class[NOISY] = [pair for pair in pairs if all(pair)]
    return [row_of(cell, peer, kind, alike) for kind, alike in sorted(by_class.items())]


def row_of(cell, peer, kind, pairs):
    row = {**cell._asdict(), "against": peer, "class": kind, "pairs": len(pairs)}
    for key in ("cycles_per_frame", "frames_per_s"):
        row[f"ratio_{key}"] = spread([statistics.mean(run[key] for run in ours) / statistics.mean(run[key] for run in theirs)
                                      for ours, theirs in pairs if all(run[key] for run in (*ours, *theirs))])
    for which, name in enumerate((FIRST, "peer")):
        runs = [run for pair in pairs for run in pair[which]]
        row[name] = {key: spread([run[key] for run in runs if run[key] is not None]) for key in FIGURES}
        row[name]["lost"] = sum(run["lost"] for run in runs)
        dropped = [run["dropped_by_switch"] for run in runs]
        row[name]["dropped_by_switch"] = None if None in dropped else sum(dropped)
        row[name]["bound_by"] = bound_by(cell, kind, row[name]["busy"])
    return row


def bound_by(cell, kind, busy):
    """What frames per second were limited by; `busy` is a spread, or None where switch and generator are one thread."""
    if cell.load in ("single", "open"):
        return {"single": "latency", "open": "rate"}[cell.load]
    if kind == NOISY:
        return "others"
    if not busy:
        return "both"
    return "switch" if busy[0] >= SWITCH_BOUND else "generator"


def ratio(values):
    return "{:.2f} ({:.2f}-{:.2f})".format(*values) if values else "-"


def spread_text(values):
    return ratio(spread(values))


def both(row, form):
    return " ".join(form(row[name]) for name in (FIRST, "peer"))


def loss(side):
    """Frames that did not arrive, and how many of them the switch says it dropped."""
    if not side["lost"] and not side["dropped_by_switch"]:
        return "0"
    return f"{side['lost']}[{'?' if side['dropped_by_switch'] is None else side['dropped_by_switch']}]"


def print_table(rows):
    lines = [["load", "frame", "touch", "ring", "macs", "queues", "against", "class", "pairs", "cycles/frame", "frames/s", "bound by",
              "cycles", "M frames/s", "burst", "lost"]]
    for row in rows:
        lines.append([
            *(str(row[key]) for key in ("load", "frame", "touch", "ring", "macs", "queues", "against", "class", "pairs")),
            ratio(row["ratio_cycles_per_frame"]), ratio(row["ratio_frames_per_s"]), both(row, lambda side: side["bound_by"]),
            both(row, lambda side: f"{side['cycles_per_frame'][0]:.0f}" if side["cycles_per_frame"] else "-"),
            both(row, lambda side: f"{side['frames_per_s'][0] / 1e6:.2f}"),
            both(row, lambda side: f"{side['burst'][0]:.0f}" if side["burst"] else "-"), both(row, loss)])
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def print_machine(passes):
    """How far the CPUs were apart while it was measured."""
    trips = collections.defaultdict(list)
    for run in [run for one in passes for sides in one.values() for runs in sides.values() for run in runs]:
        trips[run["generator"]["line_class"]].append(run["generator"]["line_round_trip_ns"])
    for kind, values in sorted(trips.items()):
        print("class {}: a cache line took {:.0f} ({:.0f}-{:.0f}) ns there and back in {} runs".format(
            kind, *spread(values), len(values)))
