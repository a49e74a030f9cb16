#!/usr/bin/env python3
"""`ringway bench` from outside: what each option asks for is what the switch sees, and what is reported is whole."""
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from rig import check
from rig.switch import Switch
from rig.tap import main

SECONDS = 0.3
TIMEOUT = 120
COMPARE = Path(__file__).resolve().parents[2] / "bench/compare.py"


class Bench:
    """A switch between two sockets, and one run at a time of `ringway bench` at it."""

    def __init__(self, binary, folder):
        self.sockets = [Path(folder) / name for name in "ab"]
        self.switch = Switch(binary, folder, [f"{path.name} vhost-user listen={path}" for path in self.sockets],
                             ["--workers", 1])

    def command(self, *words):
        return [self.switch.binary, "bench", *map(str, words), "--a", self.sockets[0], "--b", self.sockets[1]]

    def run(self, *words, look=lambda: None, after=200, seconds=SECONDS):
        """The JSON of one run, and what `look` made of the switch `after` so many frames."""
        child = subprocess.Popen([*self.command(*words), "--json", "--seconds", str(seconds)], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end, seen = time.monotonic() + TIMEOUT, None
        before = self.frames()
        while seen is None and child.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
            if self.frames() > before + after:
                seen = look()
        out, complaint = child.communicate(timeout=TIMEOUT)
        check(child.returncode == 0 and not complaint, f"{words}: status {child.returncode}: {complaint.strip()}")
        check(out.count("\n") == 1, f"{words}: not one line: {out!r}")
        report = json.loads(out)
        # An open loop floods a guest that does not get its CPU.
        check(report["lost"] == 0 or "--rate" in words, f"{words}: {out}")
        check(report["received"] + report["lost"] == report["sent"] and report["received"], f"{words}: {out}")
        return report, seen

    def frames(self):
        return sum(port["ingress"]["frames"] for port in self.switch.show("port"))

    def features(self):
        """None: the run is over already."""
        return set(self.switch.show("port")[0]["features"]) or None


def test_load(tap, bench):
    def seen(*words, look):
        report, value = bench.run("load", *words, look=look, seconds=3)
        check(value is not None, f"{words}: too short to be looked at")
        return report, value

    with tap.test("a run says what it was: as asked, or as the defaults are"):
        report, _ = bench.run("load")
        check((report["size"], report["ring"], report["queues"], report["macs"], report["entries"], report["data"],
               report["window"]) == ("64", "split", 1, 1, 256, False, 256), report)
        check(report["frames_per_s"] > 0 and report["cycles_per_frame_generator"] > 0 and
              report["line_class"] in ("X", "S"), report)
    with tap.test("--ring: each form is agreed to"):
        usual = {"mrg_rxbuf", "event_idx"}
        for words, features in (("split", usual), ("packed", usual | {"ring_packed"}),
                                ("packed,in_order", usual | {"ring_packed", "in_order"}),
                                ("split,indirect", usual | {"indirect_desc"}), ("split,-mergeable", {"event_idx"}),
                                ("split,-event_idx", {"mrg_rxbuf"})):
            report, agreed = seen("--ring", words, look=bench.features)
            check(agreed & (usual | {"ring_packed", "in_order", "indirect_desc"}) == features, f"{words}: {agreed}")
            check(report["ring"] == words, report)
    with tap.test("--entries, --queues: rings of that size, and so many"):
        report, rings = seen("--entries", 512, "--queues", 2,
                             look=lambda: {(row["port"], row["queue"]): row["size"] for row in bench.switch.show("queue")})
        check(rings == {(port, queue): 512 for port in "ab" for queue in range(4)}, rings)
        check((report["entries"], report["queues"]) == (512, 2), report)
    with tap.test("--macs: the switch learns as many of each guest"):
        report, addresses = seen("--macs", 50, look=lambda: bench.switch.show("fdb"))
        check(len(addresses) == 100 and report["macs"] == 50, len(addresses))
    with tap.test("--size: bytes of a frame, in each form of large ones; --data touches them"):
        for size, mean in ((64, 64), (1518, 1518), (9000, 9000), ("imix", 353.8), ("tso", 65214)):
            for ring in ("split", "packed,indirect", "-mergeable", "-mergeable,indirect"):
                before = bench.switch.show("port")
                report, _ = bench.run("load", "--size", size, "--ring", ring, "--data")
                frames, total = (sum(port["ingress"][key] - then["ingress"][key] for port, then in
                                     zip(bench.switch.show("port"), before)) for key in ("frames", "bytes"))
                # A few short announcements come first; on a busy machine not many frames follow.
                check(0.97 * mean * (frames - 10) < total < 1.01 * mean * frames, f"{size}, {ring}: {total} bytes, {frames} frames")
                check(abs(report["frame_bytes"] - mean) < 1 and report["data"], report)
    with tap.test("--window, --oneway: so many are under way, from A to B alone"):
        before = bench.switch.port("b")["ingress"]["frames"]
        report, _ = bench.run("load", "--window", 7, "--oneway")
        back = bench.switch.port("b")["ingress"]["frames"] - before
        check(report["window"] == 7 and report["oneway"] and back < 500 and back < report["received"] / 2, f"{back}: {report}")


def test_latency(tap, bench):
    def ordered(times):
        return 0 < times["p50"] <= times["p99"] <= times["p999"] <= times["max"] < TIMEOUT * 1e9

    with tap.test("latency: requests and their answers are timed, so many under way"):
        for window in (1, 100):
            report, _ = bench.run("latency", "--window", window)
            there, back = report["one_way_ns"], report["round_trip_ns"]
            check(report["window"] == window and ordered(there) and ordered(back), report)
            # Those under way at either end of the time may count on one side only: medians of few can be far apart.
            check(there["p50"] < back["p99"], report)
            check(abs(there["n"] + back["n"] - report["received"]) <= 2 * window and
                  abs(there["n"] - back["n"]) <= 2 * window, report)
    with tap.test("--rate: an open loop of A's, answered by B"):
        before = [bench.switch.port(name)["ingress"]["frames"] for name in "ab"]
        report, _ = bench.run("latency", "--rate", 2000, "--seed", 5, seconds=1)
        sent = [bench.switch.port(name)["ingress"]["frames"] - then for name, then in zip("ab", before)]
        check(report["rate"] == 2000 and report["seed"] == 5 and ordered(report["late_ns"]), report)
        # One second and a tenth of warm-up; a machine that is overloaded sends less, or what was due before.
        check(200 < sent[0] < 8000 and abs(sent[0] - sent[1]) <= 20, f"{sent}: {report}")
        check(report["late_ns"]["n"] <= sent[0] and ordered(report["round_trip_ns"]), report)
    with tap.test("a queue shows how often frames come, and how its worker waits for them"):
        _, row = bench.run("latency", "--rate", 10000, "--oneway", seconds=1, look=lambda: next(
            row for row in bench.switch.show("queue") if row["port"] == "a" and row["direction"] == "tx"))
        # On average every 100 us; a machine that is overloaded brings them in heaps.
        check(500 < row["gap_ns"] <= 1000000 and row["armed"] in (True, False), row)
        others = [row for row in bench.switch.show("queue") if row["direction"] == "rx"]
        check(all(row["gap_ns"] is None and row["armed"] is None for row in others), others)
    with tap.test("--rate with --oneway: B answers nothing"):
        report, _ = bench.run("latency", "--rate", 2000, "--oneway")
        check("round_trip_ns" not in report and ordered(report["one_way_ns"]) and
              report["one_way_ns"]["n"] == report["received"], report)
    with tap.test("--calls: the guests sleep until they are called, in either form of ring"):
        for ring in ("split", "split,-event_idx", "packed", "packed,-event_idx"):
            for pace in (["--window", 2, "--queues", 2], ["--rate", 3000]):
                before = sum(row["calls"] for row in bench.switch.show("queue"))
                report, calls = bench.run("latency", "--ring", ring, "--calls", *pace, after=20, seconds=0.5,
                                          look=lambda: sum(row["calls"] for row in bench.switch.show("queue")))
                check(report["calls"] and calls > before and 0 < report["calls_per_frame"] <= 1.5, f"{calls}: {report}")
                check(ordered(report["one_way_ns"]), report)
        report, _ = bench.run("latency", "--window", 2)
        check(not report["calls"] and report["calls_per_frame"] < 0.01, report)
    with tap.test("a switch that gets no CPU for longer than a run has lost nothing: the run goes on until there is an answer"):
        def pause():
            bench.switch.process.signal(signal.SIGSTOP)
            time.sleep(3)
            bench.switch.process.signal(signal.SIGCONT)
            return True

        for words in ((), ("--calls",)):
            report, paused = bench.run("latency", *words, look=pause, after=20, seconds=1)
            check(paused, f"{words}: too short to be looked at")
            check(max(report["one_way_ns"]["max"], report["round_trip_ns"]["max"]) > 2.5e9, report)
    with tap.test("--trace: when the last frames were sent, for a replay"):
        path = bench.sockets[0].with_name("trace")
        for rate in (3000, 20000):
            report, _ = bench.run("latency", "--rate", rate, "--oneway", "--trace", path, seconds=0.5)
            first, *gaps = path.read_text().splitlines()
            check(first.startswith(f"# {rate} frames/s") and gaps[0] == "0", f"{first}: {gaps[:9]}")
            # Those before the time that is reported are in it, too.
            check(min(report["sent"], 2000) <= len(gaps) <= 2000 and 0 < sum(map(int, gaps)) < TIMEOUT * 1e9,
                  f"{first}: {len(gaps)} of {report['sent']}")
    with tap.test("--trace: a file that cannot be made is refused before a frame is sent"):
        before = bench.switch.port("a")["ingress"]["frames"]
        run = subprocess.run(bench.command("latency", "--trace", path / "none"), capture_output=True, text=True,
                             timeout=TIMEOUT)
        check(run.returncode == 1 and "Not a directory; give a file" in run.stderr, f"{run.returncode}: {run.stderr}")
        check(bench.switch.port("a")["ingress"]["frames"] == before, "frames were sent")


def test_refusals(tap, bench):
    with tap.test("what cannot be is refused, in one line"):
        for words, complaint in ((["--ring", "round"], "'round' is no form"), (["--ring", "-packe"], "'-packe'"),
                                 (["--ring", "split,packed"], "split or packed"), (["--ring", "packed,split"], "split or packed"),
                                 (["--size", "10"], "from 60 to"), (["--size", "64K"], "number from"),
                                 (["--entries", "100"], "power of two"), (["--macs", "0"], "number from"),
                                 (["--rate", "0"], "number from"), (["--window", "0"], "number from"),
                                 (["--seed", "x"], "0 to 4294967295 is"), (["--rate", "9", "--window", "2"], "--window"),
                                 (["--cpu", "4095"], "taskset"),
                                 (["--entries", "8", "--size", "tso"], "needs 16 descriptors"), (["--trace", "x"], "bench latency")):
            run = subprocess.run(bench.command("load", *words), capture_output=True, text=True, timeout=TIMEOUT)
            check(run.returncode in (1, 2) and complaint in run.stderr and run.stderr.count("\n") == 1 and not run.stdout,
                  f"{words}: {run.returncode}: {run.stderr}{run.stdout}")
            check(run.returncode == 1 or "'ringway bench load --help'" in run.stderr, f"{words}: {run.stderr}")
        run = subprocess.run([bench.switch.binary, "bench", "load", "--a", "x", "--b", "x"], capture_output=True, text=True,
                             timeout=TIMEOUT)
        check(run.returncode == 2 and "the same" in run.stderr, f"{run.returncode}: {run.stderr}")


def test_table(tap, bench):
    with tap.test("by itself: a switch of its own, every cell reported"):
        for words in ([], ["--json"]):
            run = subprocess.run([bench.switch.binary, "bench", "--seconds", "0.3", "--repeat", "1", *words],
                                 capture_output=True, text=True, timeout=TIMEOUT)
            check(run.returncode == 0, run.stderr)
        cells = json.loads(run.stdout)["cells"]
        check({("64", "split", False), ("64", "packed", False), ("tso", "split", True)} <=
              {(cell["size"], cell["ring"], cell["data"]) for cell in cells}, cells)
        check(all(cell["frames_per_s"] > 0 and cell["cycles_per_frame"] > 0 and cell["lost"] == 0 and
                  cell["bound_by"] in ("switch", "generator") for cell in cells), cells)
    with tap.test("--latency: every load with workers of both kinds, the ones that always poll never kicked"):
        run = subprocess.run([bench.switch.binary, "bench", "--latency", "--seconds", "0.5", "--repeat", "1", "--json"],
                             capture_output=True, text=True, timeout=TIMEOUT)
        check(run.returncode == 0, run.stderr)
        rows = json.loads(run.stdout)
        check(sorted({(row["rate"], row["calls"]) for row in rows if row["poll"] == "adapt"}) ==
              sorted({(row["rate"], row["calls"]) for row in rows if row["poll"] == "always"}) and len(rows) == 12, rows)
        for row in rows:
            check(0 < row["p50_us"] <= row["p99_us"] <= row["p999_us"] <= row["max_us"], row)
            check(row["cpu"] > 0 and row["frames_per_s"] > 0 and row["p50_to_always"] > 0, row)
            check(row["poll"] == "adapt" or row["kicks_per_frame"] < 0.01, row)


def test_complaint(tap, bench):
    def child_of(pid):
        """The switch that a benchmark has started, as the path of its control socket; None: it has none yet."""
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        words = Path(f"/proc/{children[0]}/cmdline").read_text().split("\0") if children else []
        return words[words.index("--control") + 1] if "--control" in words else None

    def spoil(control):
        """Takes the second guest's port away once the first sends; False: it does not yet."""
        def ask(*words):
            return subprocess.run([bench.switch.binary, *words, "--control", control], capture_output=True, text=True,
                                  timeout=TIMEOUT)

        ports = ask("show", "port", "--json")
        return (not ports.returncode and json.loads(ports.stdout)["ports"][0]["ingress"]["frames"] > 0 and
                not ask("port", "del", "b").returncode)

    with tap.test("of a load under which nothing arrives is said which it was, where the frames are and what was dropped"):
        with subprocess.Popen([bench.switch.binary, "bench", "--latency", "--seconds", "2", "--repeat", "1"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            spoiled = {None}
            while run.poll() is None:  # it may be too late for one load, which has something to tell then
                control = child_of(run.pid)
                if control not in spoiled and spoil(control):
                    spoiled.add(control)
                time.sleep(0.01)
            complaint = run.stderr.read()
        check(run.returncode == 1 and complaint.count("\n") == 1, f"{run.returncode}: {complaint}")
        # Of requests the only ones may be answers that nobody took when the port went, which are no drops.
        check(re.match(r"ringway: (1.* way.*, (adapt|always): no frames arrive.*, a ingress no_destination \d+$|"
                       r"(request and response|the same with calls), (adapt|always): no answers arrived)", complaint), complaint)


def test_comparison(tap, bench):
    with tap.test("make bench: beside itself and testpmd, or it is said that there is none"):
        result = bench.sockets[0].with_name("compare.json")
        run = subprocess.run([sys.executable, COMPARE, "--binary", bench.switch.binary, "--json", result, "--peers", "testpmd",
                              "--loads", "loop,single", "--frames", "64", "--touch", "live", "--rings", "split",
                              "--passes", "1", "--seconds", str(SECONDS)], capture_output=True, text=True, timeout=TIMEOUT)
        check(run.returncode == 0, run.stderr)
        report = json.loads(result.read_text())
        rows = {(row["load"], row["against"]): row for row in report["rows"]}
        check("testpmd" in report["not_measured"] or {("loop", "testpmd"), ("single", "testpmd")} <= set(rows), rows)
        runs = [run for cell in report["passes"][0] for runs in cell["runs"].values() for run in runs]
        check(len(runs) >= 8 and all(run["cycles_per_frame"] > 0 and run["frames_per_s"] > 0 and run["lost"] == 0 and
                                     run["generator"]["line_round_trip_ns"] for run in runs), runs)


def body(tap, arguments):
    with tempfile.TemporaryDirectory(prefix="ringway-bench-") as folder:
        bench = Bench(arguments.binary, folder)
        try:
            for test in (test_load, test_latency, test_refusals, test_table, test_complaint, test_comparison):
                test(tap, bench)
        finally:
            bench.switch.stop()


if __name__ == "__main__":
    main(__doc__, body)
