"""Every series of the contract exists, moves, and moves back (contract: Metrics)."""
import json
import socket

COUNTERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", 'vllm:request_success_total{finished_reason="length"}',
            "vllm:time_to_first_token_seconds_count", "vllm:e2e_request_latency_seconds_count", "vllm:inter_token_latency_seconds_count",
            'atlas_step_seconds_count{kind="prefill"}', 'atlas_step_seconds_count{kind="decode"}', "atlas_step_overhead_seconds_count")
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
LENGTH = {"prompt": [1, 2, 3], "max_tokens": 5, "ignore_eos": True, "temperature": 0}


def test_every_series_exists_from_the_start(start):
    text = start().get("/metrics")[1]
    for name in COUNTERS + GAUGES + ("atlas_health_state", "atlas_faults_total"):
        assert name.split("{")[0] in text, name
    for reason in ("stop", "length", "timeout", "error", "abort"):
        assert f'finished_reason="{reason}"' in text


def test_a_request_moves_each_counter_by_what_it_did(start):
    atlas = start()
    before = {name: atlas.metric(name) for name in COUNTERS}
    assert atlas.post("/v1/completions", LENGTH)[0] == 200
    moved = lambda name: atlas.metric(name) - before[name]
    atlas.until(lambda: moved("vllm:e2e_request_latency_seconds_count") == 1)
    assert moved("vllm:prompt_tokens_total") == 3 and moved("vllm:generation_tokens_total") == 5
    assert moved('vllm:request_success_total{finished_reason="length"}') == 1
    assert moved("vllm:time_to_first_token_seconds_count") == 1 and moved("vllm:inter_token_latency_seconds_count") == 4
    assert moved('atlas_step_seconds_count{kind="prefill"}') == 1 and moved('atlas_step_seconds_count{kind="decode"}') == 4
    assert atlas.metric("atlas_health_state") == 1


def test_an_echoed_prompt_is_no_generated_token(start):
    atlas = start()
    before = atlas.metric("vllm:generation_tokens_total")
    atlas.post("/v1/completions", {**LENGTH, "echo": True, "logprobs": 1})
    assert atlas.metric("vllm:generation_tokens_total") - before == 5


def test_gauges_rise_with_the_load_and_fall_when_clients_leave(start):
    atlas = start("--max-batch-size=1")
    body = json.dumps({**LENGTH, "max_tokens": 5000, "stream": True}).encode()
    clients = []
    for _ in range(3):
        client = socket.create_connection(("127.0.0.1", atlas.port), timeout=60)
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        clients.append(client)
    atlas.until(lambda: atlas.metric(GAUGES[0]) == 1 and atlas.metric(GAUGES[1]) == 2 and atlas.metric(GAUGES[2]) > 0)
    for client in clients:
        client.close()
    atlas.until(lambda: all(atlas.metric(name) == 0 for name in GAUGES))
    atlas.until(lambda: atlas.metric('vllm:request_success_total{finished_reason="abort"}') == 3)


def test_a_timed_out_and_a_stopped_request_are_counted_as_such(start):
    atlas = start()
    atlas.post("/v1/completions", {**LENGTH, "max_tokens": 8000, "timeout": 0.2})
    atlas.until(lambda: atlas.metric('vllm:request_success_total{finished_reason="timeout"}') == 1)
    first = atlas.post("/v1/completions", {"prompt": "a b c", "max_tokens": 4, "temperature": 0})[1]["choices"][0]["text"]
    atlas.post("/v1/completions", {"prompt": "a b c", "max_tokens": 4, "temperature": 0, "stop": first[:2]})
    atlas.until(lambda: atlas.metric('vllm:request_success_total{finished_reason="stop"}') >= 1)
    assert all(atlas.metric(name) == 0 for name in GAUGES)
