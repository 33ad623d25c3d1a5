#!/usr/bin/env python3
"""How long /health takes while many streams run: one connection that asks again and again, beside a process that reads the streams.
Standard library only.

  health.py --binary build/release/atlas [--streams 256] [--seconds 10] [--model … flags of `atlas serve`]
"""
import argparse
import json
import multiprocessing
import os
import re
import selectors
import socket
import subprocess
import threading
import time


def read_streams(port, count, running, stop):
    """Opens the streams, reads them until told to stop, opens another for each that ends. Tells how many it read."""
    os.nice(5)  # on one machine the client is not to take the server's time
    selector = selectors.DefaultSelector()
    body = json.dumps({"prompt": [11, 12, 13], "max_tokens": 4000, "ignore_eos": True, "temperature": 0, "stream": True}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)

    def open_one():
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(head + body)
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)

    for _ in range(count):
        open_one()
    seen = set()
    while not stop.is_set():
        for key, _ in selector.select(0.1):
            got = key.fileobj.recv(1 << 16)
            if got:
                seen.add(key.fileobj.fileno())
                running.value = len(seen)
            else:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                open_one()


def probe(port, seconds):
    """Milliseconds of each probe, 5 ms apart, on one connection."""
    times, buffer = [], bytearray(1 << 16)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            size = connection.recv_into(buffer)
            times.append(1e3 * (time.perf_counter() - begin))
            if not buffer[:size].startswith(b"HTTP/1.1 200 "):
                raise SystemExit(f"/health answered {bytes(buffer[:size])!r}")
            time.sleep(0.005)
    return sorted(times)


def generated(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    return float(re.search(rb"^vllm:generation_tokens_total\S* (\S+)", text, re.M)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--model", nargs=argparse.REMAINDER, default=[], help="last: MODEL and flags for `atlas serve`")
    options = parser.parse_args()
    server = subprocess.Popen([options.binary, "serve", *options.model, "--port=0", f"--max-batch-size={options.streams}"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    running, stop = multiprocessing.Value("i", 0), multiprocessing.Event()
    reader = None
    try:
        port = None
        for line in server.stdout:
            if match := re.search(r"listening on http://[^ ]*:(\d+)", line):
                port = int(match.group(1))
            if line.startswith("ready: "):
                break
        if port is None:
            raise SystemExit("the server did not start")
        threading.Thread(target=lambda: [None for _ in server.stdout], daemon=True).start()
        idle = probe(port, min(options.seconds, 3))
        reader = multiprocessing.Process(target=read_streams, args=(port, options.streams, running, stop), daemon=True)
        reader.start()
        end = time.monotonic() + 120
        while running.value < options.streams and time.monotonic() < end:
            time.sleep(0.05)
        if running.value < options.streams:
            raise SystemExit(f"only {running.value} of {options.streams} streams run")
        before, begin = generated(port), time.monotonic()
        busy = probe(port, options.seconds)
        rate = (generated(port) - before) / (time.monotonic() - begin)
        print("| /health, ms | probes | median | p99 | most |\n|---|---|---|---|---|")
        for name, times in (("idle", idle), (f"{options.streams} streams, {rate:.0f} tokens/s", busy)):
            print(f"| {name} | {len(times)} | {times[len(times) // 2]:.2f} | {times[len(times) * 99 // 100]:.2f} | {times[-1]:.2f} |")
    finally:
        stop.set()
        if reader is not None:
            reader.terminate()
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
