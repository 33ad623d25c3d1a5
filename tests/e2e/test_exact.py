"""Exactness through the whole server: the reference's tokens, and the same bits whatever runs beside a request."""
import random
from concurrent.futures import ThreadPoolExecutor

import pytest


def complete(atlas, case, **more):
    status, answer = atlas.post("/v1/completions", {"prompt": case["prompt_ids"], "temperature": 0, "max_tokens": len(case["tokens"]),
                                                    "return_token_ids": True, "skip_special_tokens": False, **more}, timeout=300)
    assert status == 200, answer
    return answer["choices"][0]


def test_greedy_tokens_are_the_reference_s(mini, expected):
    for case in expected["cases"]:
        if len(case["prompt_ids"]) > 600:
            continue  # the long needle cases run on the Runner itself
        assert complete(mini, case)["token_ids"] == case["tokens"], case["name"]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_64_concurrent_requests_equal_each_alone(start, expected, threads):
    atlas = start(f"--threads={threads}", "--max-batch-size=16", "--max-prefill-tokens=128")
    seed = 20261130 + threads
    print("seed", seed)
    chance = random.Random(seed)
    short = [c for c in expected["cases"] if len(c["prompt_ids"]) < 400]
    bodies = []
    for i in range(64):
        case = chance.choice(short)
        bodies.append({"prompt": case["prompt_ids"][: chance.randint(1, len(case["prompt_ids"]))], "max_tokens": chance.randint(1, 40),
                       "temperature": chance.choice([0, 0.7, 1.3]), "seed": i, "logprobs": 3, "top_p": chance.choice([1, 0.9]),
                       "return_token_ids": True, "ignore_eos": chance.random() < 0.5})

    def ask(body):
        status, answer = atlas.post("/v1/completions", body, timeout=300)
        assert status == 200, answer
        choice = answer["choices"][0]
        return choice["token_ids"], choice["logprobs"], choice["text"], choice["finish_reason"]

    alone = [ask(body) for body in bodies]
    with ThreadPoolExecutor(64) as pool:
        together = list(pool.map(ask, bodies))
    for i, (one, other) in enumerate(zip(alone, together)):
        assert one == other, f"request {i} of seed {seed}"


def test_chunk_width_changes_nothing(start, expected):
    case = next(c for c in expected["cases"] if 150 < len(c["prompt_ids"]) < 700)
    answers = []
    for width in (64, 128, 512):
        atlas = start(f"--max-prefill-tokens={width}")
        choice = complete(atlas, case, logprobs=2)
        answers.append((choice["token_ids"], choice["logprobs"]))
        atlas.close()
    assert answers[0] == answers[1] == answers[2]
