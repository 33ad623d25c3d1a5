"""N-gram tables that stay in their files: the same tokens, within the plan's memory (contract: --ple-resident)."""
import json
import re
import struct
import subprocess

from conftest import BINARY, ROOT, TINY

ASK = {"max_tokens": 12, "temperature": 0, "ignore_eos": True, "return_token_ids": True, "logprobs": 1}
PROMPTS = [[(7 * i + length) % 256 for i in range(length)] for length in (1, 2, 65, 130)]
GGUF = ROOT / "tests/fixtures/gguf/tiny-qwen4_exp-q8_0.gguf"


def plan(model, *flags):
    run = subprocess.run([BINARY, "plan", str(model), *flags], capture_output=True, text=True, timeout=60)
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr


def answers(atlas):
    choices = []
    for prompt in PROMPTS:
        status, answer = atlas.post("/v1/completions", {**ASK, "prompt": prompt})
        assert status == 200, answer
        choices.append((answer["choices"][0]["token_ids"], answer["choices"][0]["logprobs"]["token_logprobs"]))
    return choices


def test_rows_from_files_give_the_answers_of_a_resident_table(start):
    resident = start("--ple-resident=always", model=TINY)
    stored = start("--ple-resident=never", model=TINY)
    assert answers(stored) == answers(resident)
    assert re.search(r"n-gram rows are read from 1 file: (io_uring|16 threads \(io_uring: .*\)), (O_DIRECT|buffered reads)", stored.output)
    assert "n-gram rows" not in resident.output
    misses = stored.metric('atlas_ple_rows_total{result="miss"}')
    assert misses > 0 and stored.metric('atlas_ple_rows_total{result="hit"}') > misses
    assert stored.metric("atlas_ple_pinned") > 0
    assert resident.metric("atlas_ple_rows_total") == 0
    assert json.loads(stored.get("/serve-plan")[1])["ple_tables"] == "stored"


def test_the_plan_says_where_tables_lie_and_why():
    auto = plan(TINY)
    assert auto["ple_tables"] == "resident" and auto["ple_store_bytes"] == 0
    assert re.fullmatch(r"48\.0 KiB fit beside weights, scratch and one sequence", auto["ple_tables_why"])
    assert plan(TINY, "--ple-resident=always")["ple_tables_why"] == "--ple-resident always"
    never = plan(TINY, "--ple-resident=never")
    assert (never["ple_tables"], never["ple_tables_why"]) == ("stored", "--ple-resident never")
    assert never["ple_store_bytes"] > 0 and never["ple_cache_slots"] == auto["ple_cache_slots"]


def test_what_cannot_be_read_row_by_row_is_refused_by_name():
    refused = plan(TINY, "--ple-resident=never", "--load-format=dummy")
    assert "--ple-resident never: --load-format dummy has no files to read rows from; auto or always is needed" in refused
    assert plan(GGUF, "--ple-resident=never")["ple_tables"] == "stored"  # its table is f16


def large_table(folder, rows_per_head):
    """TINY with n-gram tables of 8 * rows_per_head rows of 8 numbers a layer, two layers, all zeros in a hole of the file."""
    config = json.loads((TINY / "config.json").read_text())
    config["ngram_vocab_size_base"] = rows_per_head
    (folder / "config.json").write_text(json.dumps(config))
    raw = (TINY / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    parts, out, end, prime = {}, {}, 0, rows_per_head - 1

    def next_prime(number):
        while True:
            number += 1
            if number > 1 and all(number % d for d in range(2, int(number ** 0.5) + 1)):
                return number

    constants = {}
    for layer in (1, 5):  # each layer goes on where the one before stopped
        primes = []
        for _ in range(8):
            prime = next_prime(prime)
            primes.append(prime)
        constants[layer] = primes
    for name, entry in header.items():
        begin, finish = entry["data_offsets"]
        data, shape = raw[8 + size + begin:8 + size + finish], entry["shape"]
        if match := re.match(r"model\.layers\.(\d)\.ple\.ple_embedding\.(.*)", name):
            primes = constants[int(match[1])]
            rows = -(-sum(primes) // 128) * 128
            if match[2] == "ngram_heads_vocab_sizes":
                data = struct.pack("<8q", *primes)
            elif match[2] == "ngram_heads_offsets":
                data = struct.pack("<8q", *(sum(primes[:i]) for i in range(8)))
            elif match[2].startswith("ngram_embedding"):
                data, shape = None, [rows // 4, 8]
        length = len(data) if data is not None else shape[0] * shape[1] * 4
        out[name] = {"dtype": entry["dtype"], "shape": shape, "data_offsets": [end, end + length]}
        parts[name] = (end, data)
        end += length
    text = json.dumps(out).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for at, data in parts.values():
            if data is not None:
                file.seek(8 + len(text) + at)
                file.write(data)
        file.truncate(8 + len(text) + end)
    return 2 * 8 * rows_per_head * 8 * 4


def resident_set(atlas):
    status = open(f"/proc/{atlas.popen.pid}/status").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_memory_stays_within_the_plan(start, tmp_path):
    table = large_table(tmp_path, 400_000)  # 205 MB
    small = start("--ple-resident=never", "--threads=1", model=TINY)
    stored = start("--ple-resident=never", "--threads=1", model=tmp_path)
    answers(small), answers(stored)
    told = lambda atlas: json.loads(atlas.get("/serve-plan")[1])["ple_store_bytes"]
    assert told(stored) < table / 4
    # Beside the store the two are the same process: what the large table adds is its cache and nothing else.
    assert resident_set(stored) - resident_set(small) < told(stored) - told(small) + (8 << 20)
    resident = start("--ple-resident=always", "--threads=1", model=tmp_path)
    assert resident_set(resident) - resident_set(stored) > table / 2


def test_a_file_that_vanishes_from_under_the_server_fails_requests_and_not_the_process(start, tmp_path):
    large_table(tmp_path, 3_000)
    atlas = start("--ple-resident=never", model=tmp_path)
    first = atlas.post("/v1/completions", {**ASK, "prompt": [1, 2, 3]})
    with open(tmp_path / "model.safetensors", "r+b") as file:
        file.truncate(4096)
    status, answer = atlas.post("/v1/completions", {**ASK, "prompt": [200, 100, 50]})
    assert status == 500 and answer["error"]["code"] == "engine_error", answer
    assert atlas.post("/v1/completions", {**ASK, "prompt": [1, 2, 3]})[1]["choices"] == first[1]["choices"]
    assert atlas.get("/health")[0] == 200
