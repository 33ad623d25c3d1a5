"""The command line: where values come from, what is shown, logs (contract: `atlas` binary)."""
import contextlib
import json
import os
import re
import socket
import subprocess

import pytest

from conftest import BINARY, MINI, ROOT

PRESETS = sorted((ROOT / "conf/serve").glob("*.toml"))

PROMPT = {"prompt": "one two three", "temperature": 0}


def atlas(*arguments, env=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ATLAS_")}
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60, env={**clean, **(env or {})})


def test_print_config_shows_each_value_and_where_it_came_from(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('max-queue = 7\nmax-batch-size = 3\nport = 1\nlog-format = "json"\n')
    run = atlas("serve", "--print-config", "--config", str(file), "--port=9", "--api-key=s3cret", env={"ATLAS_MAX_BATCH_SIZE": "5", "ATLAS_PORT": "2"})
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert "port = 9  (--port)" in lines
    assert "max-batch-size = 5  (ATLAS_MAX_BATCH_SIZE)" in lines
    assert f"max-queue = 7  ({file}:1)" in lines
    assert "overlength = clamp  (default)" in lines
    run = atlas("serve", "--print-config", "--api-key=s3cret", env={"ATLAS_CONFIG": str(file)})
    assert f"max-queue = 7  ({file}:1)" in run.stdout and run.stderr == ""
    assert "s3cret" not in run.stdout and any(line.startswith("api-key = ***") for line in lines)


def test_an_alias_is_the_same_option():
    assert "max-batch-size = 3  (--max-num-seqs)" in atlas("serve", "--print-config", "--max-num-seqs", "3").stdout


@pytest.mark.parametrize("name,near", [("ATLAS_MAX_SEQ_LENS", "ATLAS_MAX_SEQ_LEN"), ("ATLAS_POTR", "ATLAS_PORT")])
def test_an_unknown_variable_is_a_warning_naming_the_nearest(name, near):
    run = atlas("serve", "--print-config", env={name: "1"})
    assert run.returncode == 0 and name in run.stderr and near in run.stderr


def test_every_mistake_is_named_at_once(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("max-seq-length = 5\n")
    run = atlas("serve", "--config", str(file), "--port=x", "--overlength=cut")
    assert run.returncode == 1
    for part in (f"{file}:1", "max-seq-len", "--port x", "--overlength cut"):
        assert part in run.stderr, run.stderr


def test_help_is_grouped_by_topic():
    said = atlas("--help").stdout
    assert atlas("help").stdout == said and atlas().stdout == said
    topics = [line for line in said.splitlines() if line and not line.startswith(" ") and " " not in line]
    assert topics == ["Network", "Model", "Compute", "Capacity", "Generation", "Time", "Log"]
    network = atlas("help", "network").stdout
    assert network.startswith("Network\n") and "--port" in network and "--max-queue" not in network and network.strip() in said
    assert atlas("serve", str(MINI), "--help").stdout == said
    wrong = atlas("help", "netwrok")
    assert wrong.returncode == 2 and "Network" in wrong.stderr
    for flag in ("--overlength clamp|reject", "--max-queue N", "--sampling-defaults model|none"):
        assert flag in said


def test_a_hub_id_is_found_in_the_local_cache(tmp_path):
    home = tmp_path / "hub" / "models--org--mini"
    (home / "refs").mkdir(parents=True)
    (home / "snapshots").mkdir()
    (home / "refs" / "main").write_text("abc")
    (home / "snapshots" / "abc").symlink_to(MINI)
    for env in ({"HF_HOME": str(tmp_path)}, {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HOME": "/nowhere"}):
        run = atlas("plan", "org/mini", env=env)
        assert run.returncode == 0 and json.loads(run.stdout)["vocab_size"] == 4096, run.stderr
    run = atlas("plan", "org/other", env={"HF_HOME": str(tmp_path)})
    assert run.returncode == 1 and "org/other" in run.stderr


def test_overrides_below_their_floor_are_violations_that_name_it():
    run = atlas("plan", str(MINI), "--ple-max-tokens=100", "--qsa-max-tokens=8191", "--ple-cache-slots=5")
    assert run.returncode == 1
    for part in ("--ple-max-tokens is 100", "520", "--qsa-max-tokens is 8191", "8192", "--ple-cache-slots is 5", "8320"):
        assert part in run.stderr, run.stderr


def test_the_command_line_that_operators_publish_is_taken():
    run = atlas("plan", str(MINI), "--max-prefill-tokens", "20480", "--content-loop-watchdog", "false", "--request-timeout", "3600",
                env={"ATLAS_QSA_MAX_TOKENS": "8192", "ATLAS_PLE_CACHE_SLOTS": "524288", "ATLAS_PLE_MAX_TOKENS": "20488"})
    assert run.returncode == 0, run.stderr
    plan = json.loads(run.stdout)
    assert (plan["max_batch_tokens"], plan["ple_tokens"], plan["ple_cache_slots"], plan["qsa_tokens"]) == (20488, 20488, 524288, 8192)
    assert "warning" not in run.stderr and "note:" not in run.stderr
    short = atlas("plan", str(MINI), "--max-prefill-tokens", "20480", env={"ATLAS_PLE_MAX_TOKENS": "20487", "ATLAS_QSA_MAX_TOKENS": "0"})
    assert short.returncode == 1 and "20488" in short.stderr and "--qsa-max-tokens is 0" in short.stderr


def test_a_chunk_of_8192_and_one_sequence_need_8193_tokens_and_262144_slots():
    run = atlas("plan", str(MINI), "--max-prefill-tokens=8192", "--max-batch-size=1")
    plan = json.loads(run.stdout)
    assert (plan["ple_tokens"], plan["ple_cache_slots"]) == (8193, 262144)
    for said in ("8193 tokens", "262144 slots", "a sequence: KV ", "snapshots 0 B"):
        assert said in run.stderr, run.stderr


@pytest.mark.parametrize("flag", ["--content-loop-watchdog", "--speculative=on"])
def test_what_this_build_has_not_is_a_startup_error_beside_the_plans(flag):
    for command in ("serve", "plan"):
        run = atlas(command, str(MINI), flag, "--port=0", "--max-prefill-tokens=32")
        assert run.returncode == 1 and "listening" not in run.stdout
        assert f"{flag.split('=')[0]} on: not in this build" in run.stderr and "--max-prefill-tokens is 32" in run.stderr


def test_options_that_change_nothing_are_warned_of():
    run = atlas("plan", str(MINI), "--prefix-cache-mb=100", "--max-rollbacks=3", "--snapshot-slots=2", "--num-drafts=2")
    assert run.returncode == 0 and run.stderr.count("warning") == 4, run.stderr
    assert json.loads(run.stdout)["snapshot_pool_bytes"] == 0
    run = atlas("plan", str(MINI), "--qsa-max-tokens=9000")
    assert "note: --qsa-max-tokens is 9000" in run.stderr


def test_a_running_server_has_the_plan_that_atlas_plan_prints(start):
    flags = ("--max-seq-len=1000", "--max-batch-size=3", "--max-prefill-tokens=640")
    server = start(*flags)
    served, planned = json.loads(server.get("/serve-plan")[1]), json.loads(atlas("plan", str(MINI), *flags).stdout)
    server.wait_for_line("memory: weights")
    # What is free changes from one moment to the next.
    assert served.pop("memory_ceiling_bytes") > 0 and planned.pop("memory_ceiling_bytes") > 0
    assert served == planned
    for line in ("serve plan: 3 sequences of 1000 tokens", "a sequence: KV ", "scratch of a step: "):
        assert line in server.output


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_a_preset_is_known_explained_and_planned(preset):
    lines = preset.read_text().splitlines()
    keys = {match[1]: number for number, line in enumerate(lines, 1) if (match := re.match(r"([\w-]+) *=", line))}
    assert keys and all(lines[number - 2].startswith("# ") for number in keys.values()), "a key without a comment above it"
    shown = atlas("serve", "--print-config", "--config", str(preset))
    assert shown.returncode == 0, shown.stderr
    for key, number in keys.items():
        assert re.search(rf"^{key} = .*  \({re.escape(str(preset))}:{number}\)$", shown.stdout, re.M), key
        default = re.search(rf"^{key} = (.*)  \(default\)$", atlas("serve", "--print-config").stdout, re.M)[1]
        assert f"{key} = {default}  (" not in shown.stdout, f"{key} is the default"
    planned = atlas("plan", str(MINI), "--config", str(preset))
    assert planned.returncode == 0 and "warning" not in planned.stderr and "note:" not in planned.stderr, planned.stderr
    explained = set(re.findall(r"`([\w-]+)`", (ROOT / "conf/README.md").read_text().split("| key used |")[1]))
    assert set(keys) <= explained
    assert preset.name in (ROOT / "conf/README.md").read_text()


def test_the_four_presets_are_there():
    assert [path.stem for path in PRESETS] == ["agents", "dev", "long-context", "single-gpu"]


def test_overlength_is_clamped_and_told_or_refused(start):
    body = {"prompt": [7] * 300, "max_tokens": 9000, "temperature": 0, "ignore_eos": True}
    clamp = start("--max-seq-len=320")
    for _ in range(2):
        status, headers, answer = clamp.request("POST", "/v1/completions", body)
        assert status == 200 and headers["x-atlas-max-tokens-clamped"] == "20"
        choice = json.loads(answer)["choices"][0]
        assert choice["finish_reason"] == "length" and json.loads(answer)["usage"]["total_tokens"] == 320
    clamp.wait_for_line("gets 20 .*--overlength clamp.*said once")
    assert clamp.output.count("--overlength clamp") == 1
    status, headers, answer = clamp.request("POST", "/v1/completions", {**body, "max_tokens": 20})
    assert status == 200 and "x-atlas-max-tokens-clamped" not in headers
    status, headers, answer = clamp.request("POST", "/v1/completions", {key: body[key] for key in ("prompt", "temperature", "ignore_eos")})
    assert status == 200 and "x-atlas-max-tokens-clamped" not in headers and json.loads(answer)["usage"]["completion_tokens"] == 20
    reject = start("--max-seq-len=320", "--overlength=reject")
    status, answer = reject.post("/v1/completions", body)
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded" and answer["error"]["param"] == "max_tokens"
    assert reject.post("/v1/completions", {**body, "max_tokens": 20})[0] == 200


def test_sampling_defaults_are_the_models_unless_told_otherwise(start, tmp_path):
    for path in MINI.iterdir():
        if path.name != "generation_config.json":
            (tmp_path / path.name).symlink_to(path)
    generation = json.loads((MINI / "generation_config.json").read_text()) if (MINI / "generation_config.json").exists() else {}
    (tmp_path / "generation_config.json").write_text(json.dumps({**generation, "do_sample": True, "temperature": 1.0, "top_k": 1, "repetition_penalty": 9.0}))
    ask = lambda server, seed: server.post("/v1/completions", {"prompt": "the", "max_tokens": 24, "seed": seed, "ignore_eos": True})[1]["choices"][0]["text"]
    model, none = start(model=tmp_path), start("--sampling-defaults=none", model=tmp_path)
    greedy = none.post("/v1/completions", {"prompt": "the", "max_tokens": 24, "temperature": 0, "ignore_eos": True})[1]["choices"][0]["text"]
    assert {ask(model, seed) for seed in range(4)} == {greedy}  # top_k 1, and no penalty that nobody asked for
    assert len({ask(none, seed) for seed in range(4)}) > 1
    assert "repetition_penalty" in model.output


def test_more_choices_than_the_server_takes_are_refused_for_good(start):
    server = start("--max-batch-size=2", "--max-queue=1")
    status, answer = server.post("/v1/completions", {**PROMPT, "n": 4, "max_tokens": 1})
    assert status == 400 and answer["error"]["param"] == "n" and "3" in answer["error"]["message"]
    assert server.post("/v1/completions", {**PROMPT, "n": 3, "max_tokens": 1})[0] == 200


def test_each_json_line_is_an_object_with_the_id_of_its_request(start):
    server = start("--log-format=json", "--log-requests")
    server.request("POST", "/v1/completions", {**PROMPT, "max_tokens": 2}, headers={"x-request-id": "mine-1"})
    server.request("GET", "/nothing", headers={"x-request-id": "mine-2"})

    def lines():
        return [json.loads(line) for line in server.output.splitlines() if line.startswith("{") and '"message"' in line]

    server.until(lambda: sum(line.get("request_id") == "mine-1" for line in lines()) == 2)  # the exchange and the generation
    server.until(lambda: any(line.get("request_id") == "mine-2" for line in lines()))
    (missing,) = [line for line in lines() if line.get("request_id") == "mine-2"]
    assert "404" in missing["message"] and missing["level"] == "info" and missing["time"]
    assert all("request_id" in line for line in lines() if line["message"].startswith("request "))


def test_a_tokenizer_beyond_the_vocabulary_is_a_load_error(tmp_path):
    for path in MINI.iterdir():
        if path.name != "tokenizer.json":
            (tmp_path / path.name).symlink_to(path)
    tokenizer = json.loads((MINI / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": 4096, "content": "<|beyond|>"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    run = atlas("plan", str(tmp_path))
    assert run.returncode == 1 and "tokenizer.json" in run.stderr and "4096" in run.stderr, run.stderr


def test_a_prompt_beyond_the_capacity_is_told_how_long_it_is_what_fits_and_why(start):
    server = start("--max-seq-len=320")
    assert server.post("/v1/completions", {"prompt": [7] * 319, "max_tokens": 1})[0] == 200
    status, answer = server.post("/v1/completions", {"prompt": [7] * 321, "max_tokens": 1})
    error = answer["error"]
    assert status == 400 and error["code"] == "context_length_exceeded" and error["param"] == "prompt"
    for part in ("321 tokens", "capacity is 320", "context (--max-seq-len)"):
        assert part in error["message"], error


def test_min_tokens_beyond_the_room_that_is_left_is_refused(start):
    atlas = start("--max-seq-len=320")
    for limits in ({}, {"max_tokens": 100000}):
        status, answer = atlas.post("/v1/completions", {"prompt": list(range(5, 315)), "min_tokens": 11, **limits})
        assert status == 400 and answer["error"]["param"] == "min_tokens", answer


def test_files_that_are_no_files_are_refused_and_lost_output_is_an_error(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for arguments in (["--config", "/dev/zero"], ["--config", str(pipe)], ["--api-key-file", "/dev/zero"]):
        run = subprocess.run([BINARY, "plan", str(MINI), *arguments], capture_output=True, text=True, timeout=60)
        assert run.returncode in (1, 2) and "cannot be read" in run.stderr
    with open("/dev/full", "w") as full:
        assert subprocess.run([BINARY, "plan", str(MINI)], stdout=full, stderr=subprocess.DEVNULL, timeout=60).returncode == 1


def test_as_many_connections_as_asked_for_are_held_whatever_the_soft_limit_of_files(start, tmp_path):
    def limited(name, limits):
        binary = tmp_path / name
        binary.write_text(f'#!/bin/bash\nulimit {limits}\nexec "{BINARY}" "$@"\n')
        binary.chmod(0o755)
        return binary

    server = start("--max-connections=200", binary=limited("soft", "-Sn 64"))
    with contextlib.ExitStack() as held:
        for _ in range(150):
            held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
        assert server.get("/livez")[0] == 200
    run = subprocess.run([limited("hard", "-n 300"), "serve", str(MINI), "--port=0", "--max-connections=200"],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "listening" not in run.stdout
    for part in ("--max-connections is 200", "328 open files", "may have 300", "at most 172"):
        assert part in run.stderr, run.stderr
