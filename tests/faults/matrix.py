"""Every fault that ATLAS_TEST_FAULT orders, against the running server: standard library alone, for a machine without our packages.

  matrix.py --binary build/release/atlas --backend cpu --jobs 2

Rows, each a line of the table at the end: kind x prefill or decode x one or many choices x stream or whole answer. Looked for:
  a step's fault    the choices concerned end with `error` (500, or a chunk and an error object), after the tokens of a calm run; all others
                    say what a calm run says; the faults are counted, pages and slots come back, /health stays 200
  a fatal fault     a prober every 20 ms sees 503 before the exit and nothing else after its first one; every choice that ran is told, exactly
                    once; requests, /tokenize among them, are answered 503 gpu_fault; exit 70 within --fatal-grace and a second
  what is no fault  a slow step, a product that a library refuses: the tokens of a calm run
A fault happens in the first step, from the one that it names on, in which it can. Alone on a server, a request of n tokens takes n steps.
"""
import argparse
import http.client
import json
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e/device"))
from served import Failed, Server

TOKENS = 6          # of a short answer: as many steps
LONG = 240          # of one that outlives every step that is named here
MANY = 8
GRACE = 0.4         # --fatal-grace
SLOW_FIRST = 400    # ms: how long the others have to come into the same step
DEADLINE = 0.5      # --step-deadline where a hang is looked for


def need(holds, what):
    if not holds:
        raise Failed(what)


class Answer:
    """What a client heard: its tokens and how they ended."""

    def __init__(self, status, text, stream):
        self.status, self.text, self.stream = status, text, stream
        self.tokens, self.reasons, self.error = [], [], None
        if not stream or status != 200:
            body = json.loads(text)
            self.error = body.get("error")
            for choice in body.get("choices", []):
                self.tokens += choice["token_ids"]
                self.reasons.append(choice["finish_reason"])
            return
        frames = [frame[6:] for frame in text.split("\n\n") if frame.startswith("data: ")]
        need(frames and frames[-1] == "[DONE]" and frames.count("[DONE]") == 1, f"a stream without its end: …{text[-200:]}")
        for frame in map(json.loads, frames[:-1]):
            self.error = frame.get("error") or self.error
            for choice in frame.get("choices", []):
                self.tokens += choice.get("token_ids") or []
                if choice.get("finish_reason"):
                    self.reasons.append(choice["finish_reason"])

    def failed(self):
        return self.error is not None

    def expect_whole(self, want):
        need(self.status == 200 and self.reasons == ["length"] and self.tokens == want,
             f"{self.status} {self.reasons}, tokens {self.tokens} where a calm run has {want}: {self.text[-200:]}")

    def expect_failed(self, want, code, told=None):
        """`told`: how many tokens came before; none: some beginning of a calm run's."""
        need(self.failed() and self.error["code"] == code and self.error["type"] == "server_error" and self.error["message"],
             f"{self.status}, error {self.error} where {code} was to be: {self.text[-200:]}")
        if self.stream and self.status == 200:
            need(self.reasons == ["error"], f"finish reasons {self.reasons}")
            need(self.tokens == want[:len(self.tokens)], f"tokens {self.tokens} before the fault, a calm run has {want}")
            need(told is None or len(self.tokens) == told, f"{len(self.tokens)} tokens before the fault, not {told}")
        else:
            need(self.status == {"engine_error": 500, "gpu_fault": 503}[code] and not self.reasons, f"status {self.status} for {code}")


class Prober(threading.Thread):
    """/health every 20 ms until nobody answers any more."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.seen, self.stop = server, [], threading.Event()
        self.failing_at = None
        self.start()

    def run(self):
        while not self.stop.wait(0.02):
            try:
                status, text = self.server.ask("GET", "/health")
            except (OSError, http.client.HTTPException):
                return
            self.seen.append((status, text))
            if status == 503 and self.failing_at is None:
                self.failing_at = time.monotonic()

    def await_failing(self, seconds=60):
        end = time.monotonic() + seconds
        while self.failing_at is None:
            need(time.monotonic() < end and self.is_alive(), f"/health never failed: {self.seen[-1:]}")
            time.sleep(0.002)


class Matrix:
    def __init__(self, options):
        self.options, self.backend = options, ""
        vocab = json.loads((options.model / "config.json").read_text())["vocab_size"]
        self.prompts = [[(31 * i + 97 * p + 5) % (vocab - 300) for i in range(20)] for p in range(MANY)]
        self.want = None

    def server(self, orders="", *flags):
        env = {"ATLAS_TEST_FAULT": orders} if orders else {}
        server = Server(self.options, self.options.model, f"--fatal-grace={GRACE}", *flags, env=env, slots=MANY)
        self.backend = server.backend()
        if orders:
            need(any("fault injection is on" in line for line in server.said()), "no warning that injection is on")
        return server

    def ask(self, server, prompt, stream, tokens=TOKENS):
        body = {"prompt": self.prompts[prompt], "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "return_token_ids": True, "stream": stream}
        return Answer(*server.ask("POST", "/v1/completions", body), stream)

    def ask_many(self, server, tokens, stream=lambda i: i % 2 == 0):
        with ThreadPoolExecutor(MANY) as pool:
            return list(pool.map(lambda i: self.ask(server, i, stream(i), tokens), range(MANY)))

    def calm_run(self):
        """What every prompt is answered without a fault, each alone."""
        server = self.server()
        try:
            self.want = [self.ask(server, prompt, False, LONG).tokens for prompt in range(MANY)]
        finally:
            server.kill()
        need(all(len(tokens) == LONG for tokens in self.want), "a calm run did not answer")

    @staticmethod
    def metric(server, name):
        text = server.ask("GET", "/metrics")[1]
        return sum(float(value) for labels, value in re.findall(rf"^{re.escape(name.partition('{')[0])}(\{{.*\}})? (\S+)$", text, re.M)
                   if name.partition("{")[2].rstrip("}") in labels)

    def expect_calm(self, server, faults):
        """Everything came back, everything was counted, and the next request is answered."""
        self.ask(server, 0, True).expect_whole(self.want[0][:TOKENS])
        end = time.monotonic() + 10
        while any(self.metric(server, f"vllm:{name}") for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")):
            need(time.monotonic() < end, "pages or slots did not come back")
            time.sleep(0.005)
        need(server.ask("GET", "/health")[0] == 200, "/health is not 200")
        for kind, count in faults.items():
            counted = self.metric(server, f'atlas_faults_total{{kind="{kind}"}}')
            need(counted == count, f"{counted} faults of kind {kind} were counted, not {count}")

    # ---- faults of a step

    def of_a_step(self, kind, named):
        """`named`: the kind can be of one choice alone."""
        orders = [f"slow@ms={SLOW_FIRST}@step=1", f"{kind}@step=2",       # many, their prompts: all in the second step
                  f"slow@ms={SLOW_FIRST}@step=3", f"{kind}@step=43",      # many, decoding
                  f"{kind}@step=44", f"{kind}@step=45",                   # one, its prompt: whole, stream
                  f"{kind}@step=48", f"{kind}@step=51"]                   # one, its third token: whole, stream
        choices = 2 * MANY + 4
        if named:
            orders += [f"{kind}@request={choices + 4}", f"{kind}@request={choices + MANY + 4}@step=150"]
        server = self.server(",".join(orders))
        try:
            for phase in ("prefill", "decode"):
                for i, answer in enumerate(self.ask_many(server, LONG)):
                    answer.expect_failed(self.want[i], "engine_error")
                    need(phase == "decode" or len(answer.tokens) <= 1, f"{len(answer.tokens)} tokens came before the second step")
            for stream in (False, True):
                self.ask(server, 3, stream).expect_failed(self.want[3], "engine_error", told=0)
            for stream in (False, True):
                self.ask(server, 4, stream).expect_failed(self.want[4], "engine_error", told=2)
            failed = choices
            if named:
                failed += self.one_among_many(server)
            self.expect_calm(server, {"step_error": failed})
            return f"{failed} choices failed" + (f", {2 * (MANY - 1)} beside them said what a calm run says" if named else "")
        finally:
            server.kill()

    def one_among_many(self, server, shared=False):
        """The choice that an order names fails in its prompt, then another while it decodes; the others do not notice. `shared`: but for
        those that need the same thing in that step. How many failed."""
        failed = 0
        for tokens in (TOKENS, LONG):
            answers = self.ask_many(server, tokens)
            broken = [i for i, answer in enumerate(answers) if answer.failed()]
            need(len(broken) == 1 or shared and 1 <= len(broken) < MANY, f"{len(broken)} choices failed where one was named")
            failed += len(broken)
            for i, answer in enumerate(answers):
                if i in broken:
                    answer.expect_failed(self.want[i], "engine_error")
                else:
                    answer.expect_whole(self.want[i][:tokens])
        return failed

    def unread_row(self):
        """Of a table that stays in its files: whoever needs the row fails, two that write the same words both."""
        orders = ["row_read_error@step=1", "row_read_error@step=2", "row_read_error@step=5", "row_read_error@step=8",
                  "row_read_error@request=8", f"row_read_error@request={MANY + 8}@step=100"]
        server = self.server(",".join(orders), "--ple-resident=never")
        try:
            for told in (0, 2):
                for stream in (False, True):
                    self.ask(server, 3 + told, stream).expect_failed(self.want[3 + told], "engine_error", told=told)
            failed = 4 + self.one_among_many(server, shared=True)
            self.expect_calm(server, {"step_error": failed})
            return f"{failed} choices failed, {4 + 2 * MANY - failed} beside them said what a calm run says"
        finally:
            server.kill()

    def choice_death(self, role):
        """Its request alone; the actor of a request dies of what its choice says at its end."""
        server = self.server(f"actor_death@role={role}@request=2,actor_death@role={role}@request=3,actor_death@role={role}@request=7")
        try:
            self.ask(server, 0, False).expect_whole(self.want[0][:TOKENS])
            for stream in (False, True):
                self.ask(server, 1, stream).expect_failed(self.want[1], "engine_error")
            answers = self.ask_many(server, 60)
            broken = [i for i, answer in enumerate(answers) if answer.failed()]
            need(len(broken) == 1, f"{len(broken)} choices failed where one was named")
            for i, answer in enumerate(answers):
                answer.expect_failed(self.want[i], "engine_error") if i in broken else answer.expect_whole(self.want[i][:60])
            self.expect_calm(server, {})
            return f"3 died, {MANY} others said what a calm run says"
        finally:
            server.kill()

    # ---- no faults

    def slow(self):
        server = self.server("slow@ms=1300@step=3,slow@ms=1300@op=sample@step=20", f"--step-deadline={DEADLINE}")
        try:
            prober = Prober(server)
            start = time.monotonic()
            for stream in (False, True):
                self.ask(server, 2, stream, 30).expect_whole(self.want[2][:30])
            need(time.monotonic() - start >= 2.6, "the steps were not slow")
            prober.stop.set()
            prober.join(10)
            need(prober.seen and all(status == 200 for status, _ in prober.seen), "/health failed meanwhile")
            self.expect_calm(server, {"no_progress": 0, "step_error": 0})
            return f"two steps of 1.3 s under a deadline of {DEADLINE} s, {len(prober.seen)} probes 200"
        finally:
            server.kill()

    def refused_product(self):
        server = self.server("blaslt_status,blaslt_status@step=9")
        try:
            for stream in (False, True):
                self.ask(server, 2, stream).expect_whole(self.want[2][:TOKENS])
            for i, answer in enumerate(self.ask_many(server, TOKENS)):
                answer.expect_whole(self.want[i][:TOKENS])
            self.expect_calm(server, {"step_error": 0})
            counted = self.metric(server, "atlas_gemm_fallback_total{shape=")
            need(counted >= 2 and any("gemm" in line and "refus" in line for line in server.said()), f"{counted} fallbacks counted; were they logged?")
            return f"{counted:.0f} products took the slower path, logged; tokens unchanged"
        finally:
            server.kill()

    # ---- faults of the process

    def fatal(self, order, phase, count, stream, *flags, reason=""):
        step = 1 if phase == "prefill" else 30
        orders = f"{order}@step={step}"
        if count > 1:  # the others come during the first step
            orders = f"slow@ms={SLOW_FIRST}@step=1,{order}@step={step + 1}"
        server = self.server(orders, *flags)
        try:
            prober = Prober(server)
            with ThreadPoolExecutor(MANY) as pool:
                running = [pool.submit(self.ask, server, i, stream == "stream" or (stream == "both" and i % 2 == 0), LONG) for i in range(count)]
                if order == "actor_death@role=encoder":  # nothing but a text to encode makes it move
                    end = time.monotonic() + 30
                    while prober.failing_at is None and time.monotonic() < end:
                        server.ask("POST", "/tokenize", {"prompt": "a"})
                return self.expect_fatal(server, prober, [answer for answer in running], reason)
        finally:
            server.kill()

    def expect_fatal(self, server, prober, running, reason):
        prober.await_failing()
        for path, body in (("/v1/completions", {"prompt": [1], "max_tokens": 1}), ("/tokenize", {"prompt": "a"})):
            status, text = server.ask("POST", path, body)
            need(status == 503 and json.loads(text)["error"]["code"] == "gpu_fault", f"{path} after the fault: {status} {text[:200]}")
        need(server.ask("GET", "/livez")[0] == 503 and server.ask("GET", "/readyz")[0] == 503, "/livez or /readyz after the fault")
        for i, answer in enumerate(running):
            answer.result(60).expect_failed(self.want[i], "gpu_fault")
        code = server.process.wait(60)
        took = time.monotonic() - prober.failing_at
        prober.join(10)
        need(code == 70, f"exit code {code}")
        need(0.7 * GRACE <= took <= GRACE + 1, f"the exit came {took:.2f} s after the first 503, --fatal-grace is {GRACE}")
        after = [each for each in prober.seen if each[0] != 200]
        need(len(after) >= 2 and prober.seen[-len(after):] == after, f"probes: {[status for status, _ in prober.seen][-20:]}")
        report = json.loads(after[0][1])
        need(report["status"] == "failing" and reason in report["reason"], f"/health says {after[0][1]}")
        return f"{len(running)} told, {len(after)} probes 503, exit 70 after {took:.2f} s: {report['reason'][:90]}"

    def canary(self):
        server = self.server("nan@request=0", "--health-canary=0.2")
        try:
            self.ask(server, 0, True).expect_whole(self.want[0][:TOKENS])
            return self.expect_fatal(server, Prober(server), [], "canary: logits are not finite")
        finally:
            server.kill()

    def rows(self):
        for kind, named in (("step_error", True), ("nan", True), ("oom", False)):
            yield f"{kind}: many and one, prefill and decode, stream and whole", lambda kind=kind, named=named: self.of_a_step(kind, named)
        yield "row_read_error: many and one, prefill and decode, stream and whole", self.unread_row
        for role in ("sequence", "request"):
            yield f"actor_death {role}: one and many, stream and whole", lambda role=role: self.choice_death(role)
        yield "slow: stream and whole", self.slow
        yield "blaslt_status: one and many, stream and whole", self.refused_product
        yield "nan in the canary of an idle process", self.canary
        for kind in ("sticky", "misaligned", "hang"):
            flags = (f"--step-deadline={DEADLINE}",) if kind == "hang" else ()
            reason = "no progress" if kind == "hang" else "injected fault"
            for phase in ("prefill", "decode"):
                for count, stream in ((1, "stream"), (1, "whole"), (MANY, "both")):
                    yield (f"{kind}: {phase}, {count}, {stream}",
                           lambda kind=kind, phase=phase, count=count, stream=stream, flags=flags, reason=reason:
                               self.fatal(kind, phase, count, stream, *flags, reason=reason))
        for role in ("gpu_stream", "scheduler", "encoder", "health"):
            for phase in ("prefill", "decode"):
                yield (f"actor_death {role}: {phase}, {MANY}, both",
                       lambda role=role, phase=phase: self.fatal(f"actor_death@role={role}", phase, MANY, "both", reason=f"{role} actor died"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/atlas"))
    parser.add_argument("--model", type=Path, default=ROOT / "conf/models/atlas-mini")
    parser.add_argument("--backend", default="cpu", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--jobs", type=int, default=2, help="servers at once")
    parser.add_argument("--only", action="append", help="rows whose name begins so; repeatable")
    parser.add_argument("--wrap", default="", help="command in front of the server")
    parser.add_argument("--json", help="the table as a file")
    options = parser.parse_args()
    matrix = Matrix(options)
    matrix.calm_run()

    def run(row):
        name, check = row
        start = time.monotonic()
        try:
            what, ok = check(), True
        except (Failed, OSError, http.client.HTTPException, ValueError) as error:
            what, ok = f"{type(error).__name__}: {error}", False
        seconds = round(time.monotonic() - start, 1)
        print(f"{'ok    ' if ok else 'FAILED'} {name}: {what} ({seconds} s)", flush=True)
        return {"row": name, "ok": ok, "what": what, "seconds": seconds}

    start = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        table = list(pool.map(run, (row for row in matrix.rows() if row[0].startswith(tuple(options.only or [""])))))
    print(f"\n{matrix.backend}\n{len(table)} rows, {sum(not row['ok'] for row in table)} failed, {time.monotonic() - start:.1f} s")
    if options.json:
        Path(options.json).write_text(json.dumps({"backend": matrix.backend, "rows": table}, indent=1))
    sys.exit(0 if table and all(row["ok"] for row in table) else 1)


if __name__ == "__main__":
    main()
