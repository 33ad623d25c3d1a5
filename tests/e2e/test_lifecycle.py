"""Health, drain, signals, exit codes (contract: Health, Exit codes, `listening on`)."""
import json
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from conftest import BINARY, MINI, ROOT, TINY

LONG = {"prompt": [5, 6, 7], "max_tokens": 4000, "ignore_eos": True, "temperature": 0, "stream": True}


def test_health_routes_of_a_ready_server(mini):
    assert mini.get("/livez")[0] == 200 and mini.get("/readyz")[0] == 200
    status, body = mini.get("/health")
    assert status == 200 and json.loads(body) == {"status": "ready"}


def test_sigterm_lets_running_requests_finish_and_exits_0(start):
    atlas = start()
    stream = open_stream(atlas, {**LONG, "max_tokens": 300})
    stream.recv(1)
    atlas.popen.send_signal(signal.SIGTERM)
    atlas.until(lambda: "draining" in atlas.output)
    rest = read_all(stream)
    assert b'"finish_reason":"length"' in rest and rest.rstrip().endswith(b"0") and b"[DONE]" in rest
    assert atlas.popen.wait(30) == 0


def test_a_second_signal_cuts_the_drain(start):
    atlas = start()
    stream = open_stream(atlas, LONG)
    stream.recv(1)
    atlas.popen.send_signal(signal.SIGTERM)
    atlas.until(lambda: "draining" in atlas.output)
    assert atlas.terminate() in (143, -signal.SIGTERM)


def test_a_second_signal_ends_a_server_whose_device_is_still_loading(start, tmp_path):
    config = json.loads((ROOT / "tests/fixtures/tiny-llama/config.json").read_text())
    config.update(hidden_size=2048, intermediate_size=8192, num_hidden_layers=10, num_attention_heads=32, num_key_value_heads=8, head_dim=64)
    (tmp_path / "config.json").write_text(json.dumps(config))
    atlas = start("--load-format=dummy", model=tmp_path, wait="listening")
    atlas.popen.send_signal(signal.SIGTERM)
    atlas.wait_for_line("drained")
    assert atlas.terminate() in (143, -signal.SIGTERM)


def test_sigterm_under_64_streams_lets_each_finish_or_tells_it(start):
    atlas = start("--max-batch-size=16", "--drain-timeout=1")
    streams = [open_stream(atlas, {**LONG, "max_tokens": 40 if i % 2 else 4000}) for i in range(64)]
    with ThreadPoolExecutor(64) as pool:
        answers = [pool.submit(read_all, stream) for stream in streams]
        atlas.until(lambda: sum(atlas.metric(f"vllm:{name}") for name in ("num_requests_running", "num_requests_waiting", "request_success_total")) == 64, 60)
        atlas.popen.send_signal(signal.SIGTERM)
        ends = []
        for answer in answers:
            text = answer.result(60)
            ends += re.findall(rb'"finish_reason":"(\w+)"', text)
            assert text.count(b"data: [DONE]") == 1, text[-300:]
    assert len(ends) == 64 and set(ends) <= {b"length", b"timeout"} and b"length" in ends, ends
    assert atlas.popen.wait(30) == 0


def test_a_second_signal_cuts_64_streams(start):
    atlas = start("--max-batch-size=16")
    streams = [open_stream(atlas, LONG) for _ in range(64)]
    atlas.until(lambda: atlas.metric("vllm:generation_tokens_total") > 0, 60)
    atlas.popen.send_signal(signal.SIGTERM)
    atlas.until(lambda: "draining" in atlas.output)
    assert atlas.terminate() in (143, -signal.SIGTERM)
    for stream in streams:
        stream.close()


def test_clients_that_are_killed_leave_nothing_behind(start):
    atlas = start("--max-batch-size=8")
    client = ("import json, socket, sys\n"
              "body = json.dumps({'prompt': [5, 6, 7], 'max_tokens': 4000, 'ignore_eos': True, 'temperature': 0, 'stream': True}).encode()\n"
              "for _ in range(4):\n"
              "    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
              "    s.sendall(b'POST /v1/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s' % (len(body), body))\n"
              "    s.recv(1)\n"
              "    globals().setdefault('kept', []).append(s)\n"
              "print('running', flush=True)\n"
              "sys.stdin.read()\n")
    clients = [subprocess.Popen([sys.executable, "-c", client, str(atlas.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        assert all(each.stdout.readline() == b"running\n" for each in clients)
        assert atlas.metric("vllm:num_requests_running") == 8 and atlas.metric("vllm:kv_cache_usage_perc") > 0
    finally:
        for each in clients:
            each.kill()
            each.wait(10)
            each.stdin.close()
            each.stdout.close()
    atlas.until(lambda: all(atlas.metric(f"vllm:{name}") == 0 for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")))
    assert atlas.metric('vllm:request_success_total{finished_reason="abort"}') == 8
    assert atlas.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 3})[0] == 200  # slots are free again


def test_probes_are_answered_while_256_streams_run(start):
    atlas = start("--max-batch-size=256", "--max-seq-len=1024")
    streams = [open_stream(atlas, {**LONG, "max_tokens": 1000}) for _ in range(256)]
    with ThreadPoolExecutor(256) as pool:
        answers = [pool.submit(read_all, stream) for stream in streams]
        atlas.until(lambda: atlas.metric("vllm:num_requests_running") > 200, 60)
        for _ in range(50):  # far below what a stuck probe would take; bench/serving/health.py measures
            begin = time.monotonic()
            assert atlas.get("/health")[0] == 200 and atlas.get("/livez")[0] == 200
            assert time.monotonic() - begin < 2
        assert atlas.metric("vllm:num_requests_running") > 0
        atlas.popen.kill()
        for answer in answers:
            answer.exception(60)


def test_a_model_that_does_not_say_what_it_is_known_to_say_is_exit_1(tmp_path):
    for file in MINI.iterdir():
        if file.name != "canary.json":
            (tmp_path / file.name).symlink_to(file)
    known = json.loads((MINI / "canary.json").read_text())

    def run(canary):
        (tmp_path / "canary.json").write_text(json.dumps(canary))
        return subprocess.run([BINARY, "serve", str(tmp_path), "--port=0", "--backend=cpu"], capture_output=True, text=True, timeout=60)

    wrong = run({**known, "tokens": [*known["tokens"][:-1], known["tokens"][-1] ^ 1]})
    assert wrong.returncode == 1 and "canary: tokens" in wrong.stderr and "canary.json" in wrong.stderr
    unreadable = run({**known, "prompt": [-1]})
    assert unreadable.returncode == 1 and "canary.json" in unreadable.stderr and "prompt" in unreadable.stderr and "listening" not in unreadable.stdout


def test_a_short_context_leaves_no_room_for_the_known_answer_and_says_so(start):
    atlas = start("--max-seq-len=64")
    assert "canary.json" in atlas.output
    assert atlas.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 3})[0] == 200


def test_draining_refuses_new_work(start):
    atlas = start("--drain-timeout=5")
    stream = open_stream(atlas, LONG)
    stream.recv(1)
    atlas.popen.send_signal(signal.SIGTERM)
    atlas.until(lambda: "draining" in atlas.output)
    try:
        status, _ = atlas.get("/health")
        assert status == 503
        status, answer = atlas.post("/v1/completions", {"prompt": [1], "max_tokens": 1})
        assert status == 503 and answer["error"]["code"] == "draining"
    except OSError:
        pass  # a closed listener is a refusal too
    assert atlas.popen.wait(30) == 0


def test_used_port_is_one_line_and_exit_1():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        run = subprocess.run([BINARY, "serve", str(MINI), f"--port={holder.getsockname()[1]}"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "in use" in run.stderr + run.stdout


def test_missing_model_is_exit_1_and_named(tmp_path):
    run = subprocess.run([BINARY, "serve", str(tmp_path / "nothing")], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "nothing" in run.stderr + run.stdout


def test_broken_tensor_is_exit_1_naming_file_and_tensor(tmp_path):
    for file in TINY.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["hidden_size"], config["vocab_size"] = 64, 255
    (tmp_path / "config.json").write_text(json.dumps({**config, "eos_token_id": 254}))
    run = subprocess.run([BINARY, "serve", str(tmp_path), "--port=0"], capture_output=True, text=True, timeout=60)
    said = run.stderr + run.stdout
    assert run.returncode == 1
    assert "model.safetensors" in said and "model.embed_tokens.weight" in said and "lm_head.weight" in said


def test_unknown_flag_is_exit_2_naming_the_nearest():
    run = subprocess.run([BINARY, "serve", "--max-seqlen=5"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 2 and "--max-seq-len" in run.stderr + run.stdout


def test_violations_are_listed_before_the_port_is_bound():
    run = subprocess.run([BINARY, "serve", str(MINI), "--port=0", "--max-seq-len=100000", "--max-prefill-tokens=32"],
                         capture_output=True, text=True, timeout=60)
    said = run.stderr + run.stdout
    assert run.returncode == 1 and "listening" not in said
    assert "8192" in said and "64" in said


def test_version():
    run = subprocess.run([BINARY, "--version"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and run.stdout.strip()


def open_stream(atlas, body):
    data = json.dumps(body).encode()
    stream = socket.create_connection(("127.0.0.1", atlas.port), timeout=60)
    stream.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                   % (len(data), data))
    return stream


def read_all(stream):
    kept = bytearray()
    while data := stream.recv(65536):
        kept += data
    return bytes(kept)
