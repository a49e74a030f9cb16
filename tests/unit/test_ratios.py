#!/usr/bin/env python3
"""What `make bench` makes of its runs: which are put together, and what their ratios are."""
import contextlib
import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.ratios import print_table, summarise  # noqa: E402
from bench.runs import Cell  # noqa: E402
from bench.sides import NOTHING, Counting, Usage  # noqa: E402
from rig.tap import Tap  # noqa: E402

SPLIT, PACKED, SINGLE = Cell("loop", "64", "live", "split"), Cell("loop", "64", "live", "packed"), \
    Cell("single", "64", "live", "split")


def run(cycles, kind="X", busy=1.0, lost=0, dropped=0):
    return {"class": kind, "cycles_per_frame": cycles, "frames_per_s": 1e9 / cycles, "burst": 32, "busy": busy, "lost": lost,
            "dropped_by_switch": dropped}


def one(rows, **wanted):
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    assert len(found) == 1, f"{len(found)} rows of {wanted}"
    return found[0]


def main():
    tap = Tap()
    with tap.test("a ratio is made within a pass, whatever the drift between passes"):
        passes = [{SPLIT: {"ringway": [run(10 * drift), run(30 * drift)], "peer": [run(40 * drift), run(40 * drift)]}}
                  for drift in (1, 5, 2)]
        row = one(summarise(passes))
        assert row["pairs"] == 3 and row["ratio_cycles_per_frame"] == [0.5, 0.5, 0.5], row
    with tap.test("median, least and greatest are those of the passes"):
        passes = [{SPLIT: {"ringway": [run(cycles)], "peer": [run(100)]}} for cycles in (70, 50, 60)]
        assert one(summarise(passes))["ratio_cycles_per_frame"] == [0.6, 0.5, 0.7]
    with tap.test("only runs of one class are put together"):
        passes = [{SPLIT: {"ringway": [run(10, "X"), run(1, "S")], "peer": [run(20, "X"), run(20, "X")]}}]
        row = one(summarise(passes))
        assert row["class"] == "X" and row["ratio_cycles_per_frame"][0] == 0.5, row
    with tap.test("noisy runs are not shown beside quiet ones"):
        passes = [{SPLIT: {"ringway": [run(10), run(90, "noisy")], "peer": [run(20), run(90, "noisy")]}}]
        assert one(summarise(passes))["class"] == "X"
    with tap.test("all runs are shown, as noisy, where there is no quiet pair"):
        passes = [{SPLIT: {"ringway": [run(20)], "peer": [run(80, "noisy")]}},
                  {SPLIT: {"ringway": [run(90, "noisy")], "peer": [run(90, "noisy")]}}]
        row = one(summarise(passes))
        assert row["class"] == "noisy" and row["pairs"] == 2 and row["ringway"]["bound_by"] == "others", row
        assert row["ratio_cycles_per_frame"] == [0.625, 0.25, 1], row
    with tap.test("a peer that could not be measured has no row"):
        assert summarise([{SPLIT: {"ringway": [run(10)], "peer": []}}]) == []
    with tap.test("packed rings are compared with split ones of the same pass"):
        passes = [{SPLIT: {"ringway": [run(100)]}, PACKED: {"ringway": [run(80)]}}]
        assert one(summarise(passes), against="its split")["ratio_cycles_per_frame"][0] == 0.8
    with tap.test("so are many addresses and queues with one of them"):
        many = SPLIT._replace(macs=64), SPLIT._replace(queues=4)
        rows = summarise([{cell: {"ringway": [run(cycles)]} for cell, cycles in zip((SPLIT, *many), (100, 150, 120))}])
        assert [one(rows, against=name)["ratio_cycles_per_frame"][0] for name in ("its 1 MAC", "its 1 queue")] == [1.5, 1.2], rows
    with tap.test("it is said what bound the rate"):
        passes = [{cell: {"ringway": [run(10, busy=0.6)], "peer": [run(20, busy=0.99)]} for cell in (SPLIT, SINGLE)}]
        bound = {row["load"]: (row["ringway"]["bound_by"], row["peer"]["bound_by"]) for row in summarise(passes)}
        assert bound == {"loop": ("generator", "switch"), "single": ("latency", "latency")}, bound
    with tap.test("losses are added up, with what the switch says of them if it does"):
        passes = [{SPLIT: {"ringway": [run(10, lost=3, dropped=2), run(10, lost=1, dropped=1)],
                           "peer": [run(10, lost=5, dropped=None)]}}]
        row = one(summarise(passes))
        assert [(row[side]["lost"], row[side]["dropped_by_switch"]) for side in ("ringway", "peer")] == [(4, 3), (5, None)]
    with tap.test("a peer that has no cycles of its own is compared by its rate"):
        bridge = {**run(100), "cycles_per_frame": None, "busy": None}
        row = one(summarise([{SPLIT: {"ringway": [run(10)], "peer": [bridge]}}]))
        assert (row["ratio_frames_per_s"], row["ratio_cycles_per_frame"]) == ([10, 10, 10], None), row
        assert (row["ringway"]["bound_by"], row["peer"]["bound_by"]) == ("switch", "both"), row
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            print_table([row])
        assert "  -  " in printed.getvalue(), printed.getvalue()
    with tap.test("a run of ours that has no figure makes no ratio"):
        passes = [{SPLIT: {"ringway": [{**run(10), "cycles_per_frame": None}], "peer": [run(20)]}}]
        assert one(summarise(passes))["ratio_cycles_per_frame"] is None
    with tap.test("counters that began anew in a run say nothing of it"):
        side, counts = Counting(), [Usage(100, 9, 3, None), Usage(150, 19, 4, None), Usage(20, 30, 5, None)]
        side.usage = lambda: counts.pop(0)
        side.begin(SPLIT)
        assert side.end() == Usage(50, 10, 1, None)
        counts.insert(0, Usage(150, 19, 4, None))
        side.begin(SPLIT)
        assert side.end() == NOTHING
    tap.plan()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
