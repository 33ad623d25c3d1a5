"""Health, drain, signals, exit codes (contract: Health, Exit codes, `listening on`)."""
import json
import signal
import socket
import subprocess

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
