"""The real binary as a fixture: started on a free port that it picks itself, its output kept, never left running."""
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "conf/models/atlas-mini"
TINY = ROOT / "tests/fixtures/tiny-qwen4_exp"
BINARY = Path(os.environ.get("ATLAS_BINARY", ROOT / "build/release/atlas"))
EMULATED_MODULE = Path(os.environ.get("ATLAS_EMULATED_MODULE", ROOT / "build/release/lib/atlas_cuda_emulated.so"))
BACKEND_MODULES = Path(os.environ.get("ATLAS_BACKEND_MODULES", ROOT / "build/release/tests/backend_modules"))


class Atlas:
    """One process of `atlas serve`. Waiting is on its output or its health, always bounded."""

    def __init__(self, *flags, model=MINI, env=None, wait="ready", binary=BINARY):
        argv = [str(binary), "serve", str(model), "--port=0", *flags]
        self.lines, self._new_line = [], threading.Condition()
        self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      env={**os.environ, **(env or {})}, text=True, errors="replace")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = None
        if wait != "nothing":
            match = self.wait_for_line(r"listening on http://[^\s]*:(\d+)")
            self.port = int(match.group(1))
            self.url = f"http://127.0.0.1:{self.port}"
        if wait == "ready":
            self.wait_ready()

    def _read(self):
        for line in self.popen.stdout:
            with self._new_line:
                self.lines.append(line.rstrip("\n"))
                self._new_line.notify_all()
        with self._new_line:
            self.lines.append(None)
            self._new_line.notify_all()

    @property
    def output(self):
        return "\n".join(line for line in self.lines if line is not None)

    def wait_for_line(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        with self._new_line:
            seen = 0
            while True:
                for line in self.lines[seen:]:
                    if line is None:
                        raise AssertionError(f"the process ended without a line {pattern!r}:\n{self.output}")
                    if match := re.search(pattern, line):
                        return match
                seen = len(self.lines)
                if not self._new_line.wait(max(0, end - time.monotonic())):
                    raise AssertionError(f"no line {pattern!r} in {seconds} s:\n{self.output}")

    def wait_ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.popen.poll() is not None:
                raise AssertionError(f"ended with {self.popen.returncode}:\n{self.output}")
            if self.get("/readyz")[0] == 200:
                return
            threading.Event().wait(0.005)
        raise AssertionError(f"not ready in {seconds} s:\n{self.output}")

    def request(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers, bytes); a connection refused or cut is an exception."""
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def get(self, path):
        status, _, body = self.request("GET", path, timeout=10)
        return status, body.decode()

    def post(self, path, body, **kwargs):
        status, _, answer = self.request("POST", path, body, **kwargs)
        return status, json.loads(answer)

    def events(self, path, body, timeout=60):
        """The SSE frames of a streamed answer: parsed JSON documents, then '[DONE]'."""
        status, headers, raw = self.request("POST", path, {**body, "stream": True}, timeout=timeout)
        assert status == 200, raw
        assert headers["Content-Type"].startswith("text/event-stream")
        frames = [frame for frame in raw.decode("utf-8").split("\n\n") if frame and not frame.startswith(":")]
        assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames), frames
        return [frame[6:] if frame == "data: [DONE]" else json.loads(frame[6:]) for frame in frames]

    def metric(self, name):
        """Sum over the series of that name (with an optional label match appended, as in `name{label="x"}`)."""
        text = self.get("/metrics")[1]
        base, _, labels = name.partition("{")
        wanted = [part for part in labels.rstrip("}").split(",") if part]
        total = 0.0
        for line in text.splitlines():
            match = re.match(r"([\w:]+)(\{.*\})? ([^ ]+)", line)
            if match and match.group(1) == base and all(part in (match.group(2) or "") for part in wanted):
                total += float(match.group(3))
        return total

    def until(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < end, f"not within {seconds} s; output:\n{self.output[-2000:]}"
            threading.Event().wait(0.005)
        return value

    def terminate(self, number=signal.SIGTERM, seconds=40):
        self.popen.send_signal(number)
        return self.popen.wait(seconds)

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(10)
        self._reader.join(5)


@pytest.fixture
def start():
    """start(*flags, model=…, env=…) → Atlas; every process ends with the test."""
    running = []

    def _start(*flags, **kwargs):
        running.append(Atlas(*flags, **kwargs))
        return running[-1]

    yield _start
    for atlas in running:
        atlas.close()


@pytest.fixture(scope="session")
def mini():
    """One server with atlas-mini for all tests that need no flags of their own."""
    atlas = Atlas()
    yield atlas
    atlas.close()


@pytest.fixture(scope="session")
def expected():
    return json.loads((ROOT / "tests/fixtures/mini/expected.json").read_text())
