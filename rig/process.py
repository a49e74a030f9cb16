"""A child process that cannot outlive its parent, with its log in a file and its CPU time at hand."""
import os
import signal
import subprocess
from pathlib import Path

STOP_SECONDS = 10
TICKS = os.sysconf("SC_CLK_TCK")
MACHINE = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def stat_seconds(path):
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_seconds(cpu="cpu"):
    """What the time of the machine, or of one of its CPUs, went to, by name."""
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    return next(dict(zip(MACHINE, (int(number) / TICKS for number in numbers))) for name, *numbers in lines if name == cpu)


class Process:
    def __init__(self, command, log, env=None, options=(), pass_fds=()):
        """`options` are setpriv's: it is there on every Debian, and ends the child when the parent is killed."""
        self.name = Path(command[0]).name
        self.log = Path(log)
        with open(self.log, "ab") as output:
            # A session of its own: Ctrl-C reaches the parent alone, which then ends its children in order.
            self.child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *options, *map(str, command)], env=env,
                                          stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                          start_new_session=True, pass_fds=pass_fds)

    @property
    def pid(self):
        return self.child.pid

    def ended(self):
        """None while it runs, else how it ended, in words."""
        status = self.child.poll()
        if status is None:
            return None
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"{self.name} {how}; the end of its log: {self.tail(1) or 'empty'}"

    def tail(self, lines):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def cpu_seconds(self, threads=None):
        """User and system time of all its threads, or of those whose name starts with `threads`."""
        if threads is None:
            return stat_seconds(Path(f"/proc/{self.pid}/stat"))
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(stat_seconds(task / "stat") for task in tasks if (task / "comm").read_text().startswith(threads))

    def signal(self, number):
        if self.child.poll() is None:
            self.child.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.child.wait()

    def stop(self):
        """Ends it the polite way; True if it took that and said success."""
        self.signal(signal.SIGTERM)
        try:
            return self.child.wait(STOP_SECONDS) == 0
        except subprocess.TimeoutExpired:
            self.kill()
            return False
