"""A forked process that sends lines of JSON, may hang or crash, and never outlives the one that made it."""

import json
import os
import select
import signal
import sys
import tempfile
import time

from rekindle_checks import trap


def die_with_parent():
    """Whoever started this process may be killed without a word; then nobody would end a hanging check."""
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
    except (ImportError, OSError, AttributeError):
        pass


class Child(object):
    """A forked process that sends lines and may crash; the crash is read from two temporary files."""

    def __init__(self, work, own_group=True):
        self.state = tempfile.TemporaryFile()
        self.maps = tempfile.TemporaryFile()
        self.buffer = b""
        reader, writer = os.pipe()
        sys.stderr.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(reader)
                if own_group:
                    os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                die_with_parent()
                if os.getppid() != parent:  # it died before we asked to die with it
                    os._exit(1)
                trap.install(self.state.fileno(), self.maps.fileno())
                work(lambda event: os.write(writer, (json.dumps(event) + "\n").encode("utf-8")))
                code = 0
            except BaseException as error:
                sys.stderr.write("%s: %s\n" % (type(error).__name__, error))
                code = 70
            sys.stderr.flush()
            os._exit(code)
        os.close(writer)
        self.reader = reader

    def lines(self, deadline):
        """Events until the child closes its end; None when the deadline passes first, and then it is killed."""
        while True:
            while b"\n" in self.buffer:
                line, self.buffer = self.buffer.split(b"\n", 1)
                yield json.loads(line.decode("utf-8"))
            left = None if deadline is None else deadline - time.time()
            late = left is not None and left <= 0
            if late or not select.select([self.reader], [], [], left)[0]:
                self.kill()
                yield None
                return
            data = os.read(self.reader, 65536)
            if not data:
                return
            self.buffer += data

    def kill(self):
        for target in (-self.pid, self.pid):
            try:
                os.kill(target, signal.SIGKILL)
            except OSError:
                pass

    def end(self):
        """Wait for it; what its death says, as fields of a failed result, or None for a plain end."""
        os.close(self.reader)
        status = os.waitpid(self.pid, 0)[1]
        with self.state, self.maps:
            self.state.seek(0)
            self.maps.seek(0)
            crash = trap.read(self.state.read(), self.maps.read()) or {}
        if not os.WIFSIGNALED(status):
            return {"exit": os.WEXITSTATUS(status)} if os.WEXITSTATUS(status) else None
        number = os.WTERMSIG(status)
        if crash.get("signal") != number:
            crash = {}
        return dict(crash, signal=number, name=trap.SIGNALS.get(number, "signal %d" % number))
