#!/usr/bin/env python3
"""Atlas beside llama.cpp's server on the same GGUF file, in one run: decode, prefill, 16 streams, time to the first token, memory.

Rounds alternate which server is measured first. Every prompt is used once, so no cache of prompts helps anybody. Prints a Markdown
table: median and spread (lowest to highest) over the rounds, and the ratio in Atlas's favour (above 1 is better for Atlas)."""
import argparse
import random
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import servers


class Prompts:
    """Never the same twice: both servers get their own."""

    def __init__(self, vocabulary):
        self.random = random.Random(20)
        self.vocabulary = vocabulary

    def __call__(self, length):
        return [self.random.randrange(self.vocabulary // 50, self.vocabulary // 2) for _ in range(length)]


def decode_rate(server, prompts, tokens):
    first, seconds, tokens = server.stream(prompts(16), tokens)
    return (tokens - 1) / (seconds - first)


def prefill_seconds(server, prompts):
    return server.stream(prompts(512), 1)[0]


def aggregate_rate(server, prompts, streams, tokens):
    asked = [prompts(32) for _ in range(streams)]
    begin = time.perf_counter()
    with ThreadPoolExecutor(streams) as pool:
        answers = list(pool.map(lambda ids: server.stream(ids, tokens), asked))
    return sum(answer[2] for answer in answers) / (time.perf_counter() - begin)


def first_token_ms(server, prompts):
    return 1e3 * statistics.median(server.stream(prompts(32), 1)[0] for _ in range(5))


def measure(server, prompts, options):
    prefill = prefill_seconds(server, prompts)
    return {
        "decode b=1, tokens/s": decode_rate(server, prompts, options.tokens),
        "prefill 512, tokens/s": 512 / prefill,
        "prefill 512, TTFT ms": 1e3 * prefill,
        f"{options.parallel} streams, tokens/s": aggregate_rate(server, prompts, options.parallel, options.tokens),
        "idle, prompt of 32: TTFT ms (p50 of 5)": first_token_ms(server, prompts),
    }


def shown(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} – {max(values):.1f})"


def row(name, ours, theirs, less_is_better):
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"| {name} | {shown(ours)} | {shown(theirs)} | {1 / ratio if less_is_better else ratio:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    servers.add_arguments(parser)
    parser.add_argument("--repeat", type=int, default=5, help="rounds, at least 3")
    parser.add_argument("--tokens", type=int, default=128, help="of a decode")
    options = parser.parse_args()
    if options.repeat < 3 or options.context < 640:
        parser.error("--repeat is at least 3 and --context at least 640")
    with servers.both(options) as (atlas, peer):
        prompts = Prompts(atlas.get("/serve-plan")[1]["vocab_size"])
        results = {atlas.name: {}, peer.name: {}}
        for server in (atlas, peer):
            measure(server, prompts, options)  # warm: pages touched, threads up
        for turn in range(options.repeat):
            for server in ((atlas, peer) if turn % 2 == 0 else (peer, atlas)):
                for name, value in measure(server, prompts, options).items():
                    results[server.name].setdefault(name, []).append(value)
                print(f"round {turn + 1} of {options.repeat}: {server.name}", file=sys.stderr)
        memory = {server.name: server.memory() for server in (atlas, peer)}
    print(f"{options.threads} threads each, {options.parallel} sequences of {options.context} tokens, {options.repeat} rounds: "
          "median (lowest – highest)\n")
    print("| | atlas | llama.cpp | ratio |\n|---|---|---|---|")
    for name, ours in results[atlas.name].items():
        row(name, ours, results[peer.name][name], "TTFT" in name)
    for place, name in enumerate(("RSS at the end, MiB", "RSS at its peak, MiB")):
        row(name, [memory[atlas.name][place]], [memory[peer.name][place]], True)


if __name__ == "__main__":
    try:
        main()
    except servers.Failed as error:
        sys.exit(str(error))
