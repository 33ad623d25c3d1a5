#!/usr/bin/env python3
"""PyTorch and transformers on the same GPU, at the shapes of kernel_bench and step_bench, beside their figures.

    torch_peer.py [--ours KERNEL_BENCH_OUTPUT] [--our-steps STEP_BENCH_OUTPUT] [--only ops|model] [--layers N]

Operations: `eager` calls them one by one, `graph` replays a captured CUDA graph of as many turns as the operands rotate
through, which is what PyTorch reaches without its host time. The model is transformers' own, with random weights in
bench/step/configs/flash-next, cut to --layers. What cannot run here is named, with the reason, and left out.
"""
import argparse
import contextlib
import json
import re
import time
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "bench/step/configs/flash-next/config.json"


class Rig:
    """Times calls of f(turn)."""

    def __init__(self, device, seconds):
        self.device = torch.device(device)
        self.on_gpu = self.device.type == "cuda"
        self.seconds = seconds
        self.problems = []

    def sync(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    def eager(self, call):
        for turn in range(3):
            call(turn)
        self.sync()
        begin = time.perf_counter()
        call(0)
        self.sync()
        calls = max(1, min(5000, int(self.seconds / 3 / max(time.perf_counter() - begin, 1e-6))))
        best = float("inf")
        for _ in range(3):
            begin = time.perf_counter()
            for turn in range(calls):
                call(turn)
            self.sync()
            best = min(best, (time.perf_counter() - begin) / calls)
        return best

    def graphed(self, call, turns):
        if not self.on_gpu:
            return None
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for turn in range(3):
                call(turn)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for turn in range(turns):
                call(turn)
        return self.eager(lambda _: graph.replay()) / turns

    @contextlib.contextmanager
    def attempt(self, what):
        """Notes a failure instead of ending the run."""
        try:
            with torch.no_grad():
                yield
        except Exception as error:  # whatever a missing kernel or package raises
            self.problems.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}")
            if self.on_gpu:
                torch.cuda.empty_cache()

    def normal(self, *shape, dtype=torch.bfloat16):
        return torch.empty(*shape, dtype=dtype, device=self.device).normal_(0.0, 0.05)

    def rotating(self, bytes_a_call, make):
        wanted = 192 << 20 if self.on_gpu else 1
        return [make() for _ in range(max(1, min(64, -(-wanted // max(1, int(bytes_a_call))))))]


class Shapes:
    def __init__(self, text, smoke):
        self.hidden, self.vocab = text["hidden_size"], text["vocab_size"]
        self.streams, self.rank = text["hc_count"], text["hc_lowrank"]
        self.heads, self.kv_heads, self.head_dim = text["num_attention_heads"], text["num_key_value_heads"], text["head_dim"]
        self.index_heads, self.index_dim = text["indexer_n_heads"], text["indexer_head_dim"]
        self.budget = text["indexer_budget"]
        self.k_heads, self.v_heads = text["linear_num_key_heads"], text["linear_num_value_heads"]
        self.gdn_dim = text["linear_key_head_dim"]
        self.experts, self.top_k, self.intermediate = text["num_experts"], text["num_experts_per_tok"], text["moe_intermediate_size"]
        self.ple = text["ple_embed_dim"]
        self.decode = [1, 3] if smoke else [1, 8, 32, 64]
        self.prefill = [70] if smoke else [512, 2048, 8192]
        self.contexts = [30, 100] if smoke else [1024, 8192, 32768]
        self.wide = self.streams * self.hidden
        self.conv = (2 * self.k_heads + self.v_heads) * self.gdn_dim
        self.value = self.v_heads * self.gdn_dim
        self.query = self.heads * self.head_dim
        self.kv = self.kv_heads * self.head_dim

    def products(self):
        h = self.hidden
        return [("gdn qkv", self.conv, h), ("gdn z", self.value, h), ("gdn a, b", self.v_heads, h),
                ("gdn out, attn out", h, self.value), ("attn q", 2 * self.query, h), ("attn k, v", self.kv, h),
                ("indexer", (self.index_heads + 1) * self.index_dim, h), ("hc down", self.rank, self.wide),
                ("hc up", self.wide, self.rank), ("hc inject", self.streams, self.wide), ("ple key", self.wide, self.ple),
                ("router", self.experts, h), ("shared gate, up", self.intermediate, h), ("shared down", h, self.intermediate),
                ("lm_head", self.vocab, h)]


def dense_cases(rig, s):
    for name, n, k in s.products():
        with rig.attempt(f"gemm {name}"):
            weights = rig.rotating(2 * n * k, lambda: rig.normal(n, k))
            for rows in s.decode + ([] if name == "lm_head" else s.prefill):
                x = rig.normal(rows, k)
                yield f"gemm {name}", "", rows, len(weights), lambda t: F.linear(x, weights[t % len(weights)])


def row_cases(rig, s):
    for rows in s.decode + s.prefill:
        wide = rig.rotating(4 * rows * s.wide, lambda: rig.normal(rows, s.streams, s.hidden))
        other = rig.normal(rows, s.streams, s.hidden)
        up, gate = rig.normal(rows, s.intermediate), rig.normal(rows, s.intermediate)
        weight = rig.normal(s.hidden)
        router = rig.normal(rows, s.experts)
        turns = len(wide)
        yield "rms_norm", "", rows, turns, lambda t: F.rms_norm(wide[t % turns], (s.hidden,), weight, 1e-6)
        yield "add", "", rows, turns, lambda t: wide[t % turns].add_(other)
        yield "swiglu", "", rows, turns, lambda t: F.silu(gate) * up
        yield "moe_route", "", rows, turns, lambda t: torch.softmax(router.float(), -1).topk(s.top_k, -1)
    table = rig.normal(s.vocab, s.hidden)
    for rows in s.decode + s.prefill:
        ids = torch.randint(0, s.vocab, (8, rows), device=rig.device)
        yield "embedding", "", rows, 8, lambda t: F.embedding(ids[t % 8], table)


def attention_cases(rig, s):
    """As many positions as the selection leaves, lying one after the other: no pages and no gather."""
    for context in s.contexts:
        n = min(context, s.budget)
        for rows in s.decode:
            q = rig.normal(rows, s.heads, 1, s.head_dim)
            kv = rig.rotating(4 * rows * n * s.kv, lambda: (rig.normal(rows, s.kv_heads, n, s.head_dim),
                                                            rig.normal(rows, s.kv_heads, n, s.head_dim)))
            turns = len(kv)
            yield (f"attention", f"context {context}", rows, turns,
                   lambda t: F.scaled_dot_product_attention(q, *kv[t % turns], enable_gqa=True))
    for rows in s.prefill:
        q = rig.normal(1, s.heads, rows, s.head_dim)
        k, v = rig.normal(1, s.kv_heads, rows, s.head_dim), rig.normal(1, s.kv_heads, rows, s.head_dim)
        yield ("attention", "from the start", rows, 1,
               lambda t: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


def gdn_cases(rig, s):
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

    weight = rig.normal(s.conv, 1, 4)
    for rows in s.decode + s.prefill:
        decode = rows in s.decode
        batch, length = (rows, 1) if decode else (1, rows)
        x = rig.normal(batch, s.conv, length + 3)
        yield "causal_conv gdn", "", rows, 4, lambda t: F.silu(F.conv1d(x, weight, groups=s.conv))
        q = rig.normal(batch, length, s.v_heads, s.gdn_dim)
        k, v = rig.normal(batch, length, s.v_heads, s.gdn_dim), rig.normal(batch, length, s.v_heads, s.gdn_dim)
        g = -torch.rand(batch, length, s.v_heads, device=rig.device)
        beta = torch.rand(batch, length, s.v_heads, device=rig.device, dtype=torch.bfloat16)
        states = rig.rotating(4 * batch * s.v_heads * s.gdn_dim**2,
                              lambda: rig.normal(batch, s.v_heads, s.gdn_dim, s.gdn_dim, dtype=torch.float32))
        step = qwen.torch_recurrent_gated_delta_rule if decode else qwen.torch_chunk_gated_delta_rule
        yield ("gdn, recurrent" if decode else "gdn, chunks", "", rows, len(states),
               lambda t: step(q, k, v, g=g, beta=beta, initial_state=states[t % len(states)], output_final_state=True,
                              use_qk_l2norm_in_kernel=True))


def expert_cases(rig, s):
    from transformers.models.qwen4_exp import modeling_qwen4_exp as qwen

    config = text_config(4)
    for implementation in ("grouped_mm", "batched_mm"):
        with rig.attempt(f"moe_experts {implementation}"):
            config._experts_implementation = implementation
            with torch.device("meta"):
                experts = qwen.Qwen4ExpTextExperts(config)
            experts = experts.to(torch.bfloat16).to_empty(device=rig.device)
            for parameter in experts.parameters():
                parameter.normal_(0.0, 0.05)
            for rows in s.decode + (s.prefill if implementation == "grouped_mm" else []):
                x = rig.normal(rows, s.hidden)
                turns = 16
                ids = torch.stack([torch.rand(rows, s.experts, device=rig.device).topk(s.top_k, -1).indices for _ in range(turns)])
                weights = torch.full((rows, s.top_k), 0.1, device=rig.device, dtype=torch.bfloat16)
                yield "moe_experts", implementation, rows, turns, lambda t: experts(x, ids[t % turns], weights)
            del experts


def sampling_cases(rig, s):
    for rows in s.decode:
        logits = rig.rotating(4 * rows * s.vocab, lambda: rig.normal(rows, s.vocab, dtype=torch.float32))
        turns = len(logits)

        def top_k_top_p(t):
            values, ids = logits[t % turns].topk(20, -1)
            shares = values.softmax(-1)
            shares = shares.masked_fill(shares.cumsum(-1) - shares > 0.95, 0.0)
            return ids.gather(-1, torch.multinomial(shares, 1))

        yield "sample, greedy", "", rows, turns, lambda t: logits[t % turns].argmax(-1)
        yield "sample, temperature", "", rows, turns, lambda t: torch.multinomial(logits[t % turns].softmax(-1), 1)
        yield "sample, top_k 20, top_p 0.95", "", rows, turns, top_k_top_p
        yield ("sample, greedy, 20 logprobs", "", rows, turns,
               lambda t: (logits[t % turns].argmax(-1), logits[t % turns].log_softmax(-1).topk(20, -1)))


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def our_ops(file):
    """(op, where, rows) to µs, of a table of kernel_bench."""
    found = {}
    for line in Path(file).read_text().splitlines() if file else []:
        row = cells(line)
        if len(row) == 9 and re.fullmatch(r"\d+", row[2]) and re.fullmatch(r"[\d.]+", row[3]):
            where = row[1].split(", ", 1)[1] if row[0] == "attention" else ""
            found[row[0], where, int(row[2])] = float(row[3])
    return found


def time_ops(rig, s, ours):
    print("| op | where | rows | eager µs | graph µs | atlas µs | atlas / best |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for cases in (dense_cases, row_cases, attention_cases, gdn_cases, expert_cases, sampling_cases):
        with rig.attempt(cases.__name__):
            for op, where, rows, turns, call in cases(rig, s):
                eager = graph = None
                with rig.attempt(f"{op} {where} rows {rows}"):
                    eager = rig.eager(call)
                if eager is not None:
                    with rig.attempt(f"{op} {where} rows {rows}, captured"):
                        graph = rig.graphed(call, min(turns, 16))
                best = min((t for t in (eager, graph) if t is not None), default=None)
                mine = ours.get((op, where if op == "attention" else "", rows))
                row = [op, where, rows, *(f"{1e6 * t:.2f}" if t is not None else "" for t in (eager, graph)),
                       f"{mine:.2f}" if mine is not None else "", f"{mine * 1e-6 / best:.2f}" if mine and best else ""]
                print("| " + " | ".join(map(str, row)) + " |", flush=True)


def text_config(layers):
    from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig

    text = dict(CONFIG_TEXT)
    text["ple_layer_ids"] = [layer for layer in text["ple_layer_ids"] if layer <= layers]  # counted from one
    text["layer_types"] = ["qwen_sparse_attention" if kind == "full_attention" else kind for kind in text["layer_types"][:layers]]
    text["num_hidden_layers"] = layers
    text.pop("model_type", None)
    return Qwen4ExpTextConfig(**text)


def our_steps(file, layers):
    """Case to median ms, of step_bench's table for that number of layers."""
    found, wanted = {}, False
    for line in Path(file).read_text().splitlines() if file else []:
        heading = re.match(r"(\d+) of \d+ layers", line)
        if heading:
            wanted = int(heading.group(1)) == layers
        row = cells(line)
        if row[0] == "case" and not row[1].startswith("tokens"):
            wanted = False  # what follows is extrapolated
        if wanted and len(row) == 6 and re.fullmatch(r"[\d.]+", row[3]):
            found[row[0]] = float(row[3])
    return found


def repeated(state, batch):
    """A cache layer's attributes with every tensor of one sequence repeated."""
    if torch.is_tensor(state) and state.dim() > 1 and state.shape[0] == 1:
        return state.repeat_interleave(batch, 0)
    if isinstance(state, dict):
        return {key: repeated(value, batch) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(repeated(value, batch) for value in state)
    return state


def time_model(rig, s, layers, ours):
    from transformers import DynamicCache
    from transformers.models.qwen4_exp import modeling_qwen4_exp as qwen

    config = text_config(layers)
    config._attn_implementation = "sdpa"
    config._experts_implementation = "grouped_mm"
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(rig.device):  # where the buffers that are derived from the config are made, too
        model = qwen.Qwen4ExpForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    for parameter in model.parameters():
        parameter.normal_(0.0, 0.02)

    print(f"\ntransformers' Qwen4ExpForCausalLM, {layers} layers, bf16, experts {config._experts_implementation}, attention sdpa\n")
    print("| case | ms (median) | atlas ms (median) | atlas / transformers |")
    print("|---|---:|---:|---:|")

    def show(case, times):
        times.sort()
        median = 1e3 * times[len(times) // 2]
        mine = ours.get(case)
        print(f"| {case} | {median:.3f} | {f'{mine:.3f}' if mine else ''} | {f'{mine / median:.3f}' if mine else ''} |", flush=True)

    def forward(ids, cache):
        begin = time.perf_counter()
        out = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        out.logits.argmax(-1)
        rig.sync()
        return time.perf_counter() - begin

    def some_ids(batch, length):
        return torch.randint(0, s.vocab // 2, (batch, length), device=rig.device)

    for length in s.prefill:
        with rig.attempt(f"prefill {length}"):
            show(f"prefill {length}", [forward(some_ids(1, length), DynamicCache(config=config)) for _ in range(4)][1:])
    for context in s.contexts[:2]:
        for batch in s.decode:
            with rig.attempt(f"decode b={batch}, context {context}"):
                # One sequence is filled and repeated: a batch of long prompts does not fit the reference's temporaries.
                cache = DynamicCache(config=config)
                forward(some_ids(1, context), cache)
                for layer in cache.layers:
                    layer.__dict__.update(repeated(layer.__dict__, batch))
                cache.position_ids = cache.position_ids.expand(-1, batch, -1)
                times = [forward(some_ids(batch, 1), cache) for _ in range(12)]
                show(f"decode b={batch}, context {context}", times[2:])
                del cache
            if rig.on_gpu:
                torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", help="what kernel_bench printed on this machine")
    parser.add_argument("--our-steps", help="what step_bench printed on this machine")
    parser.add_argument("--only", choices=("ops", "model"))
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.03, help="a row")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--config", default=str(CONFIG))
    parser.add_argument("--smoke", action="store_true", help="few rows: whether everything runs")
    arguments = parser.parse_args()

    global CONFIG_TEXT
    loaded = json.loads(Path(arguments.config).read_text())
    CONFIG_TEXT = loaded.get("text_config", loaded)
    rig = Rig(arguments.device, arguments.seconds)
    shapes = Shapes(CONFIG_TEXT, arguments.smoke)
    versions = f"torch {torch.__version__}"
    with rig.attempt("transformers"):
        import transformers

        versions += f", transformers {transformers.__version__}"
    print(f"{torch.cuda.get_device_name() if rig.on_gpu else 'CPU'}; {versions}\n")
    if arguments.only != "model":
        time_ops(rig, shapes, our_ops(arguments.ours))
    if arguments.only != "ops":
        with rig.attempt("model"):
            time_model(rig, shapes, arguments.layers, our_steps(arguments.our_steps, arguments.layers))
    if rig.problems:
        print("\nNot run:\n")
        for problem in rig.problems:
            print(f"- {problem}")


if __name__ == "__main__":
    main()
