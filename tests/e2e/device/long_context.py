"""The evidence that needs long prompts, through a running server: standard library alone, for a machine without our packages.

  long_context.py --binary build/release/atlas --backend cpu --scale small

Prompts are token ids of a small model whose config is copied with more positions. Checks, each a line of the table at the end:
  lengths   every prompt of n * W + {…} tokens, one between and random ones are answered, at two chunk widths W
  chunked   the same prompts through servers that cut them differently answer the same tokens and log-probabilities
  batch     prompts alone and all at once answer the same tokens and log-probabilities
  step      a refused launch ends its own request with an error and the next one works
  sticky    a sticky fault under load: every stream ends with an error, the health word says failing, the process exits 70
  capacity  a prompt past one chunk; prompts and answers up to the context, whose last position is used; beyond it 400
  longest   the longest prompt alone (for a server under a sanitizer, see --wrap)
Answers are compared as the text that the server sent: no number is parsed on the way.
"""
import argparse
import http.client
import json
import random
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from served import Failed, Server

ROOT = Path(__file__).resolve().parents[3]
SCALES = {
    # prefill: (--max-prefill-tokens, n of n * W + add); add: just above a page, around a chunk, short of the next width
    "full": {"prefill": [(4095, (0, 1, 2)), (8192, (0, 1))], "add": (1117, 1118, 1862, 4092), "longest": 13397, "random": 200, "batch": 32,
             "positions": 65536, "narrow": 512, "tokens": 16,
             "capacity": {"prefill": 8192, "past_chunk": 9000, "context": 40000, "prompt": 30000, "completion": 5000, "open": 35000}},
    "small": {"prefill": [(191, (0, 1, 2)), (256, (0, 1))], "add": (29, 30, 58, 127), "longest": 419, "random": 24, "batch": 8,
              "positions": 1024, "narrow": 64, "tokens": 8,
              "capacity": {"prefill": 256, "past_chunk": 281, "context": 400, "prompt": 300, "completion": 50, "open": 350}},
}


class Evidence:
    def __init__(self, options, model):
        self.options, self.model, self.scale = options, model, SCALES[options.scale]
        self.rows, self.backend = [], ""
        self.vocab = json.loads((model / "config.json").read_text())["vocab_size"]

    def start(self, *flags, **more):
        server = Server(self.options, self.model, *flags, **more)
        self.backend = server.backend()
        return server

    def prompt(self, length, seed=0):
        chance = random.Random(length * 1_000_003 + seed)
        return [chance.randrange(self.vocab - 1) for _ in range(length)]  # the last id ends a text

    def run(self, name, check):
        start = time.monotonic()
        try:
            what = check()
            ok = True
        except (Failed, OSError, http.client.HTTPException) as error:
            what, ok = f"{type(error).__name__}: {error}", False
        self.rows.append({"check": name, "ok": ok, "what": what, "seconds": round(time.monotonic() - start, 1)})
        print(f"{'ok    ' if ok else 'FAILED'} {name}: {what} ({self.rows[-1]['seconds']} s)", flush=True)

    def with_server(self, body, *flags, **more):
        server = self.start(*flags, **more)
        try:
            return body(server)
        finally:
            if self.options.wrap:
                code = server.stop()  # a sanitizer tells what it found when its program ends
                print("\n".join(line for line in server.said() if line.startswith("=========")), flush=True)
                if code != 0:
                    raise Failed(f"the server under {self.options.wrap.split()[0]} exited {code}")
            else:
                server.kill()

    def edge_lengths(self, prefill, counts):
        width = prefill // 64 * 64
        return [n * width + add for n in counts for add in self.scale["add"]]

    def lengths(self, prefill, counts):
        """All answered; one at a time, so that chunks are as wide as they can be."""
        edges = self.edge_lengths(prefill, counts)
        chance = random.Random(prefill)
        top = self.scale["longest"]
        others = [top] + [chance.randint(1, top) for _ in range(self.scale["random"])]

        def body(server):
            for length in edges:
                server.complete(self.prompt(length), 4)
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda length: server.complete(self.prompt(length), 2), others))
            return f"{len(edges)} at n * {prefill // 64 * 64} + {list(self.scale['add'])}, {top} and {len(others) - 1} random: all 200"

        return self.with_server(body, f"--max-prefill-tokens={prefill}")

    def chunked(self):
        """The widest server sees each prompt whole."""
        lengths = [self.scale["longest"]]
        for prefill, counts in self.scale["prefill"]:
            lengths += self.edge_lengths(prefill, counts)
        lengths = sorted(set(lengths))
        whole = (max(lengths) + 63) // 64 * 64
        widths = [whole, *(prefill for prefill, _ in self.scale["prefill"]), self.scale["narrow"]]
        answers = [self.with_server(lambda server: [server.complete(self.prompt(length), self.scale["tokens"]) for length in lengths],
                                    f"--max-prefill-tokens={width}") for width in widths]
        for width, answer in zip(widths[1:], answers[1:]):
            different = [length for length, a, b in zip(lengths, answers[0], answer) if a != b]
            if different:
                place = lengths.index(different[0])
                raise Failed(f"{len(different)} of {len(lengths)} prompts differ at width {width}, first of {different[0]} tokens:\n"
                             f"  {answers[0][place][:300]}\n  {answer[place][:300]}")
        return f"{len(lengths)} prompts of {lengths[0]} to {lengths[-1]} tokens x {self.scale['tokens']} tokens: widths {widths} equal"

    def batch(self):
        chance = random.Random(32)
        count = self.scale["batch"]
        prompts = [self.prompt(chance.randint(1, 600 if self.scale["positions"] > 4096 else 120), seed) for seed in range(count)]
        tokens = 2 * self.scale["tokens"]

        def body(server):
            alone = [server.complete(prompt, tokens) for prompt in prompts]
            with ThreadPoolExecutor(count) as pool:
                together = list(pool.map(lambda prompt: server.complete(prompt, tokens), prompts))
            different = [i for i, (a, b) in enumerate(zip(alone, together)) if a != b]
            if different:
                i = different[0]
                raise Failed(f"{len(different)} of {count} differ; prompt {i} of {len(prompts[i])} tokens:\n  {alone[i][:300]}\n  {together[i][:300]}")
            return f"{count} prompts x {tokens} tokens, alone and {count} at once: tokens and log-probabilities equal"

        return self.with_server(body, f"--max-prefill-tokens={self.scale['narrow']}", slots=count)

    def step(self):
        def body(server):
            request = {"prompt": self.prompt(40), "max_tokens": 4, "temperature": 0, "ignore_eos": True}
            status, text = server.ask("POST", "/v1/completions", request)
            if status != 500 or "engine_error" not in text:
                raise Failed(f"a refused launch was answered {status}: {text[:200]}")
            server.complete(self.prompt(40), 4)
            if server.ask("GET", "/health")[0] != 200:
                raise Failed("the server is not healthy after a step error")
            return "500 engine_error, the next request works, /health 200: " + json.loads(text)["error"]["message"][:120]

        return self.with_server(body, env={"ATLAS_TEST_FAULT": "step_error@step=1"})

    def sticky(self, kind, streams=8):
        # All streams come while the first step is slow.
        server = self.start("--fatal-grace=3", slots=streams, env={"ATLAS_TEST_FAULT": f"slow@ms=1000@step=1,{kind}@step=40"})
        try:
            def stream(seed):
                return server.ask("POST", "/v1/completions", {"prompt": self.prompt(20, seed), "max_tokens": self.scale["positions"] - 64,
                                                              "temperature": 0, "ignore_eos": True, "stream": True})

            with ThreadPoolExecutor(streams) as pool:
                running = [pool.submit(stream, seed) for seed in range(streams)]
                end = time.monotonic() + server.patience
                while (health := server.ask("GET", "/health"))[0] == 200:
                    if time.monotonic() > end:
                        raise Failed("the health word never failed")
                    time.sleep(0.002)
                report = json.loads(health[1])
                if report.get("status") != "failing":
                    raise Failed(f"/health says {health[1]}")
                refused, text = server.ask("POST", "/v1/completions", {"prompt": [1], "max_tokens": 1})
                if refused != 503 or "gpu_fault" not in text:
                    raise Failed(f"a request after the fault was answered {refused}: {text[:200]}")
                for number, (status, text) in enumerate(each.result(server.patience) for each in running):
                    reasons = re.findall(r'"finish_reason":"(\w+)"', text)
                    if status != 200 or reasons != ["error"] or '"error":{' not in text or not text.rstrip().endswith("data: [DONE]"):
                        raise Failed(f"stream {number} ended {status} {reasons}: …{text[-300:]}")
            code = server.process.wait(server.patience)
            if code != 70:
                raise Failed(f"exit code {code}")
            return f"{streams} streams ended with an error and [DONE], 503 gpu_fault, exit 70: {report.get('reason', '')[:120]}"
        finally:
            server.kill()

    def capacity(self):
        """What flags allow is had to the last position, what they do not is a 400 that says why; nothing is a 500."""
        scale = self.scale["capacity"]
        context = scale["context"]

        def one_chunk(server):
            server.complete(self.prompt(scale["past_chunk"]), 8)

        def fill(server):
            """The answer that fills the context when nobody says how long it is to be."""
            request = {"prompt": self.prompt(scale["open"]), "temperature": 0, "ignore_eos": True, "return_token_ids": True}
            status, text = server.ask("POST", "/v1/completions", request)
            answer = json.loads(text)
            if status != 200 or answer["choices"][0]["finish_reason"] != "length" or answer["usage"]["total_tokens"] != context:
                raise Failed(f"a prompt of {scale['open']} tokens without max_tokens was answered {status}: {text[-300:]}")
            return answer["choices"][0]

        def whole(server):
            server.complete(self.prompt(scale["prompt"]), scale["completion"])
            server.complete(self.prompt(context - 1), 1)
            status, text = server.ask("POST", "/v1/completions", {"prompt": self.prompt(context), "max_tokens": 1})
            error = json.loads(text).get("error", {})
            if status != 400 or error.get("code") != "context_length_exceeded" or error["message"].count(str(context)) < 2 \
                    or "context (--max-seq-len)" not in error["message"]:
                raise Failed(f"a prompt of {context} tokens was answered {status}: {text[:300]}")
            return fill(server)

        self.with_server(one_chunk, f"--max-prefill-tokens={scale['prefill']}")
        full = self.with_server(whole, f"--max-seq-len={context}", slots=2)
        # The end of the context is nothing that a row could see.
        roomy = self.with_server(lambda server: server.ask("POST", "/v1/completions", {
            "prompt": self.prompt(scale["open"]), "max_tokens": context - scale["open"], "temperature": 0, "ignore_eos": True,
            "return_token_ids": True}), f"--max-seq-len={context + 64}", slots=2)
        if json.loads(roomy[1])["choices"][0] != full:
            raise Failed(f"the answer up to {context} tokens depends on where the context ends")
        return (f"{scale['past_chunk']} at --max-prefill-tokens {scale['prefill']}; at --max-seq-len {context}: {scale['prompt']} + {scale['completion']}, "
                f"{context - 1} + 1, {scale['open']} without max_tokens ends `length` at {context}; {context} is a 400")

    def longest(self):
        width = self.scale["prefill"][0][0]
        return self.with_server(lambda server: f"{self.scale['longest']} tokens answered: " +
                                server.complete(self.prompt(self.scale["longest"]), 4)[:100], f"--max-prefill-tokens={width}", slots=1)

    def checks(self):
        for prefill, counts in self.scale["prefill"]:
            yield f"lengths {prefill}", lambda prefill=prefill, counts=counts: self.lengths(prefill, counts)
        yield "chunked", self.chunked
        yield "batch", self.batch
        yield "step", self.step
        yield "sticky", lambda: self.sticky("sticky")
        yield "sticky misaligned", lambda: self.sticky("misaligned")
        yield "capacity", self.capacity
        yield "longest", self.longest


def copy_with_positions(model, positions, folder):
    for file in model.iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file.resolve())
    config = json.loads((model / "config.json").read_text())
    config["max_position_embeddings"] = positions
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/atlas"))
    parser.add_argument("--model", type=Path, default=ROOT / "tests/fixtures/tiny-qwen4_exp")
    parser.add_argument("--backend", default="cuda", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--scale", default="full", choices=SCALES)
    parser.add_argument("--only", action="append", help="checks whose name begins so; repeatable")
    parser.add_argument("--wrap", default="", help="command in front of the server")
    parser.add_argument("--json", help="the table as a file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        evidence = Evidence(options, copy_with_positions(options.model, SCALES[options.scale]["positions"], Path(folder)))
        for name, check in evidence.checks():
            if name.startswith(tuple(options.only or [""])):
                evidence.run(name, check)
    print(f"\n{evidence.backend}\n\n| check | | seconds | what |\n|---|---|---|---|")
    for row in evidence.rows:
        first_line = row["what"].splitlines()[0]
        print(f"| {row['check']} | {'ok' if row['ok'] else '**FAILED**'} | {row['seconds']} | {first_line} |")
    if options.json:
        Path(options.json).write_text(json.dumps({"backend": evidence.backend, "rows": evidence.rows}, indent=1))
    sys.exit(0 if evidence.rows and all(row["ok"] for row in evidence.rows) else 1)


if __name__ == "__main__":
    main()
