"""One `atlas serve` for scripts that run where there is nothing but python: its output kept, every wait bounded."""
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path


class Failed(Exception):
    pass


class Server:
    """One `atlas serve`, its output kept; every wait is bounded."""

    def __init__(self, options, model, *flags, env=None, slots=8):
        self.binary = str(options.binary)
        argv = [*shlex.split(options.wrap), self.binary, "serve", str(model), "--port=0", f"--backend={options.backend}",
                f"--max-batch-size={slots}", *flags]
        self.patience = 1200 if options.wrap else 300
        self.lines, self.news = [], threading.Condition()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ATLAS_")}
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace", env={**clean, **(env or {})})
        threading.Thread(target=self._read, daemon=True).start()
        self.port = int(self._line(r"listening on http://[^\s]*:(\d+)")[1])
        self._line(r"^ready: ")

    def _read(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.lines.append(None)
            self.news.notify_all()

    def _line(self, pattern):
        end = time.monotonic() + self.patience
        with self.news:
            while True:
                for line in self.lines:
                    if line is not None and (match := re.search(pattern, line)):
                        return match
                if None in self.lines or not self.news.wait(max(0.0, end - time.monotonic())):
                    raise Failed(f"no line {pattern!r}; the server said: {' | '.join(self.said()[-5:])}")

    def said(self):
        return [line for line in self.lines if line is not None]

    def backend(self):
        return next((line for line in self.said() if ": backend " in line), "")

    def ask(self, method, path, body=None):
        """(status, body as text)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def complete(self, prompt, tokens, **more):
        """What was generated, as the server's own text: ids and log-probabilities."""
        status, text = self.ask("POST", "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                                                            "logprobs": 3, "return_token_ids": True, **more})
        if status != 200:
            raise Failed(f"{len(prompt)} tokens: status {status}: {text[:300]}")
        match = re.search(r'"choices":(.*),"usage":(\{.*\})\}\s*$', text, re.S)
        if not match or f'"prompt_tokens":{len(prompt)}' not in match[2] or f'"completion_tokens":{tokens}' not in match[2]:
            raise Failed(f"{len(prompt)} tokens: an answer of another form: {text[:300]}")
        return match[1]

    def served_pid(self):
        """Of the server itself, which may be a descendant of what it is wrapped in."""
        family = [self.process.pid]
        for pid in family:
            process = Path(f"/proc/{pid}")
            try:
                if (process / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace") == self.binary:
                    return pid
                for children in process.glob("task/*/children"):
                    family += map(int, children.read_text().split())
            except OSError:
                pass  # it has just ended
        return self.process.pid

    def stop(self):
        """The exit code after SIGTERM."""
        if self.process.poll() is None:
            os.kill(self.served_pid(), signal.SIGTERM)
        try:
            return self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed("the server did not end after SIGTERM")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
