"""Clients that leave, queues that fill: pages, slots and gauges come back."""
import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor


def idle(atlas):
    return (atlas.metric("vllm:num_requests_running") == 0 and atlas.metric("vllm:num_requests_waiting") == 0
            and atlas.metric("vllm:kv_cache_usage_perc") == 0)


def test_200_streams_with_random_disconnects_return_everything(start):
    atlas = start("--max-batch-size=8", "--max-queue=512")
    seed = 20261201
    print("seed", seed)

    def one(i):
        chance = random.Random(seed + i)
        leave = chance.random() < 0.6
        body = json.dumps({"prompt": [chance.randint(1, 4000) for _ in range(chance.randint(1, 200))], "max_tokens": chance.randint(1, 60),
                           "ignore_eos": True, "temperature": 0, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", atlas.port), timeout=120) as stream:
            stream.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            got, limit = bytearray(), chance.randint(0, 3000)
            while not (leave and len(got) >= limit) and (data := stream.recv(4096)):
                got += data
        return leave or (b"[DONE]" in got and got.count(b'"finish_reason":"length"') == 1)

    with ThreadPoolExecutor(200) as pool:
        assert all(pool.map(one, range(200)))
    atlas.until(lambda: idle(atlas))
    assert atlas.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 3})[0] == 200


def test_a_client_that_leaves_is_an_abort_in_the_metrics(start):
    atlas = start()
    before = atlas.metric('vllm:request_success_total{finished_reason="abort"}')
    body = json.dumps({"prompt": [1, 2], "max_tokens": 4000, "ignore_eos": True, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", atlas.port), timeout=60) as stream:
        stream.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        stream.recv(100)
    atlas.until(lambda: atlas.metric('vllm:request_success_total{finished_reason="abort"}') == before + 1 and idle(atlas))


def test_a_full_queue_is_429_with_retry_after(start):
    atlas = start("--max-batch-size=1", "--max-queue=1")
    body = {"prompt": [1, 2], "max_tokens": 600, "ignore_eos": True}

    def ask(_):
        status, headers, _ = atlas.request("POST", "/v1/completions", body, timeout=120)
        return status, headers.get("Retry-After")

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, range(12)))
    assert {status for status, _ in answers} == {200, 429}
    assert all(retry for status, retry in answers if status == 429)
    atlas.until(lambda: idle(atlas))
