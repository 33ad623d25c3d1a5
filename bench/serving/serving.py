#!/usr/bin/env python3
"""Speed of a served model over HTTP: decode at several batch sizes, prefill, time to first token. Standard library only."""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor


def stream(port, body):
    """Send one streamed completion; returns (seconds to the first token, seconds in all, tokens)."""
    data = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}}).encode()
    begin = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(data), data))
        first, kept = None, bytearray()
        while got := connection.recv(1 << 16):
            kept += got
            if first is None and b'"text":"' in kept:
                first = time.perf_counter() - begin
    usage = re.findall(rb'"completion_tokens":\s*(\d+)', kept)
    if b"[DONE]" not in kept or not usage:
        raise SystemExit(f"a stream failed: {bytes(kept[:500])!r}")
    return first, time.perf_counter() - begin, int(usage[-1])


def prompt(length, seed):
    return [11 + (i * 7919 + seed * 104729) % 3000 for i in range(length)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", nargs=argparse.REMAINDER, default=[], help="last: MODEL and flags for `atlas serve`")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    server = subprocess.Popen([options.binary, "serve", *options.model, "--port=0", "--max-batch-size=16"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    port = None
    try:
        for line in server.stdout:
            if match := re.search(r"listening on http://[^ ]*:(\d+)", line):
                port = int(match.group(1))
                break
        if port is None:
            raise SystemExit("the server did not start")
        threading.Thread(target=lambda: [None for _ in server.stdout], daemon=True).start()
        for _ in range(6000):
            with socket.create_connection(("127.0.0.1", port)) as probe:
                probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                if b" 200 " in probe.recv(64):
                    break
            time.sleep(0.01)
        print("| over HTTP | tokens/s | TTFT ms (median) |\n|---|---|---|")
        ask = lambda seed, n, m: stream(port, {"prompt": prompt(n, seed), "max_tokens": m, "ignore_eos": True, "temperature": 0})
        ask(0, 64, 16)
        times = [ask(i, 512, 1)[1] for i in range(1, 2 + 3 * options.repeat)]
        print(f"| prefill 512 | {512 / statistics.median(times):.0f} | {1e3 * statistics.median(times):.2f} |")
        for batch in (1, 8, 16):
            rates, firsts = [], []
            for repeat in range(options.repeat):
                begin = time.perf_counter()
                with ThreadPoolExecutor(batch) as pool:
                    answers = list(pool.map(lambda i: ask(1000 * repeat + i, 64, options.tokens), range(batch)))
                rates.append(sum(a[2] for a in answers) / (time.perf_counter() - begin))
                firsts += [a[0] for a in answers]
            print(f"| decode, {batch} streams | {statistics.median(rates):.0f} | {1e3 * statistics.median(firsts):.2f} |")
        with open(f"/proc/{server.pid}/status") as status:
            print(re.search(r"VmHWM:.*", status.read()).group(0))
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main()
