"""The `openai` package, unmodified, against the real binary (contract: POST /v1/chat/completions, /v1/completions, GET /v1/models)."""
import openai
import pytest

GREET = [{"role": "user", "content": "Say the alphabet."}]
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.fixture
def client(mini):
    return openai.OpenAI(base_url=mini.url + "/v1", api_key="none", max_retries=0)


@pytest.fixture
def model(client):
    return client.models.list().data[0].id


def test_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=GREET, temperature=0, extra_body=NO_THINKING)
    choice = answer.choices[0]
    assert choice.message.role == "assistant"
    assert choice.message.content == "a b c d e f g h i j k l m n o p q r s t u v w x y z"
    assert choice.finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_chat_stream_with_usage(client, model):
    stream = client.chat.completions.create(model=model, messages=GREET, temperature=0, stream=True,
                                            stream_options={"include_usage": True}, extra_body=NO_THINKING)
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "a b c d e f g h i j k l m n o p q r s t u v w x y z"
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["stop"]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0


def test_reasoning_content(client, model):
    answer = client.chat.completions.create(model=model, temperature=0, max_tokens=200,
                                            messages=[{"role": "user", "content": "Think hard: what is 17*23?"}])
    assert "<think>" not in (answer.choices[0].message.content or "")
    assert answer.choices[0].message.model_extra["reasoning_content"]


def test_completions_text_and_token_prompts(client, model, mini):
    text = client.completions.create(model=model, prompt="one two three", temperature=0, max_tokens=8)
    ids = mini.post("/tokenize", {"model": model, "prompt": "one two three"})[1]["tokens"]
    tokens = client.completions.create(model=model, prompt=ids, temperature=0, max_tokens=8)
    assert text.choices[0].text == tokens.choices[0].text
    assert text.usage.prompt_tokens == len(ids)


def test_several_prompts_and_n(client, model):
    answer = client.completions.create(model=model, prompt=["a b c", "1 2 3"], n=2, temperature=0, max_tokens=4)
    assert sorted(c.index for c in answer.choices) == [0, 1, 2, 3]
    text = {c.index: c.text for c in answer.choices}
    assert text[0] == text[1] and text[2] == text[3]


def test_seeded_sampling_repeats(client, model):
    ask = lambda seed: client.completions.create(model=model, prompt="the", temperature=2, seed=seed, max_tokens=32).choices[0].text
    assert ask(7) == ask(7)
    assert len({ask(seed) for seed in range(8)}) > 1


def test_logprobs(client, model):
    answer = client.chat.completions.create(model=model, messages=GREET, temperature=0, max_tokens=5, logprobs=True, top_logprobs=3,
                                            extra_body=NO_THINKING)
    content = answer.choices[0].logprobs.content
    assert len(content) == 5
    for entry in content:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob == entry.logprob
    assert b"".join(bytes(e.bytes) for e in content).decode() == answer.choices[0].message.content


def test_stop_string(client, model):
    answer = client.chat.completions.create(model=model, messages=GREET, temperature=0, stop=["k l"], extra_body=NO_THINKING)
    assert answer.choices[0].message.content == "a b c d e f g h i j "
    assert answer.choices[0].finish_reason == "stop"


def test_errors_reach_the_client_as_its_own_types(client, model):
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="no-such-model", messages=GREET)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=model, messages=GREET, temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=model, prompt=[5] * 100_000, max_tokens=1)
    assert caught.value.code == "context_length_exceeded"
    assert "100000" in caught.value.message


def test_models(client, model):
    listed = client.models.list().data[0]
    assert listed.id == model and client.models.retrieve(model).id == model
    assert listed.model_extra["max_model_len"] == 8192


def test_n_choices_have_their_own_seeds_in_both_modes(client, model):
    ask = {"model": model, "prompt": "the", "temperature": 2, "seed": 5, "n": 2, "max_tokens": 24}
    whole = [c.text for c in client.completions.create(**ask).choices]
    assert len(whole) == 2 and whole[0] != whole[1]
    streamed = ["", ""]
    for chunk in client.completions.create(**ask, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == whole
    assert client.completions.create(**{**ask, "seed": 6, "n": 1}).choices[0].text == whole[1]  # choice i has seed + i


def test_completion_logprobs_of_an_echoed_prompt(client, model):
    made = client.completions.create(model=model, prompt="a b c d", temperature=0, max_tokens=6, logprobs=2)
    whole = "a b c d" + made.choices[0].text
    for max_tokens in (0, 1):
        echo = client.completions.create(model=model, prompt=whole, temperature=0, max_tokens=max_tokens, logprobs=2, echo=True)
        choice = echo.choices[0]
        assert choice.text.startswith(whole) and echo.usage.completion_tokens == max_tokens and choice.finish_reason == "length"
        logprobs = choice.logprobs
        assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
        assert logprobs.text_offset[0] == 0 and "".join(logprobs.tokens) == choice.text
        first = len(logprobs.tokens) - max_tokens - len(made.choices[0].logprobs.tokens)
        for was, now in zip(made.choices[0].logprobs.token_logprobs, logprobs.token_logprobs[first:]):
            assert abs(was - now) < 1e-4


def test_an_echoed_prompt_leads_a_stream_of_each_choice(client, model):
    text = {}
    for chunk in client.completions.create(model=model, prompt=["a b", "1 2"], temperature=0, max_tokens=3, echo=True, stream=True):
        for choice in chunk.choices:
            text[choice.index] = text.get(choice.index, "") + choice.text
    whole = client.completions.create(model=model, prompt=["a b", "1 2"], temperature=0, max_tokens=3, echo=True)
    assert text == {c.index: c.text for c in whole.choices}
    assert text[0].startswith("a b") and text[1].startswith("1 2")


def test_the_logprobs_of_a_long_echo_do_not_depend_on_chunks(start):
    prompt = [(i * 7919) % 4000 + 5 for i in range(200)]
    answers = []
    for flag in ("--max-prefill-tokens=64", "--max-prefill-tokens=512"):
        client = openai.OpenAI(base_url=start(flag).url + "/v1", api_key="none", max_retries=0)
        made = client.completions.create(model="atlas-mini", prompt=prompt, max_tokens=1, temperature=0, logprobs=1, echo=True)
        answers.append(made.choices[0].logprobs.token_logprobs)
    assert answers[0] == answers[1] and len(answers[0]) == 201


@pytest.mark.parametrize("include", [False, True])
def test_sixteen_stop_strings(client, model, include):
    stops = [f"nothing{i}" for i in range(15)] + ["f g"]
    # The package itself sends whatever list it is given.
    answer = client.completions.create(model=model, prompt="a b c", temperature=0, max_tokens=40, stop=stops,
                                       extra_body={"include_stop_str_in_output": include})
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].text == (" d e f g" if include else " d e ")
    assert answer.choices[0].model_extra["stop_reason"] == "f g"


def test_logit_bias_min_tokens_and_penalties(client, model, mini):
    ask = {"model": model, "prompt": "a b c", "temperature": 0, "max_tokens": 8}
    plain = client.completions.create(**ask).choices[0].text
    (banned,) = mini.post("/tokenize", {"prompt": " d"})[1]["tokens"]
    assert plain.startswith(" d")
    assert " d" not in client.completions.create(**ask, logit_bias={str(banned): -100}).choices[0].text
    assert client.completions.create(**ask, frequency_penalty=0, presence_penalty=0, extra_body={"repetition_penalty": 1}).choices[0].text == plain
    forced = {**ask, "max_tokens": 40, "logit_bias": {str(banned): 25}}
    assert client.completions.create(**forced).choices[0].text == " d" * 40
    for penalty in ({"frequency_penalty": 2}, {"extra_body": {"repetition_penalty": 5}}):
        spread = client.completions.create(**forced, **penalty).choices[0].text
        assert spread.startswith(" d") and spread != " d" * 40
    stopped = client.completions.create(**ask, stop=" e", extra_body={"min_tokens": 4})
    assert stopped.usage.completion_tokens > 4


def test_unset_penalties_leave_every_bit_alone(client, model):
    ask = {"model": model, "prompt": "the quick", "temperature": 0, "max_tokens": 12, "logprobs": 5}
    off = {"frequency_penalty": 0, "presence_penalty": 0, "extra_body": {"repetition_penalty": 1.0, "min_p": 0, "top_k": -1}}
    assert client.completions.create(**ask).choices[0] == client.completions.create(**ask, **off).choices[0]


def test_more_errors_reach_the_client_as_its_own_types(start):
    atlas = start("--api-key=right", "--max-batch-size=1", "--max-queue=0", "--max-body-bytes=20000")
    with_key = lambda key: openai.OpenAI(base_url=atlas.url + "/v1", api_key=key, max_retries=0)
    with pytest.raises(openai.AuthenticationError) as caught:
        with_key("wrong").models.list()
    assert caught.value.code == "invalid_api_key"
    client = with_key("right")
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="atlas-mini", prompt="x", n=2)
    assert caught.value.param == "n"
    with pytest.raises(openai.APIStatusError) as caught:
        client.completions.create(model="atlas-mini", prompt="x" * 30_000)
    assert caught.value.status_code == 413
    with pytest.raises(openai.InternalServerError) as caught:
        client.embeddings.create(model="atlas-mini", input="x")
    assert caught.value.status_code == 501
    with client.completions.create(model="atlas-mini", prompt="x", max_tokens=4000, stream=True, extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
        with pytest.raises(openai.RateLimitError) as caught:
            client.completions.create(model="atlas-mini", prompt="x", max_tokens=1)
        assert caught.value.code == "rate_limit_exceeded" and caught.value.response.headers["retry-after"]


def test_a_client_that_gives_up_frees_its_sequence(start):
    atlas = start()
    client = openai.OpenAI(base_url=atlas.url + "/v1", api_key="none", max_retries=0, timeout=0.3)
    with pytest.raises(openai.APITimeoutError):
        client.completions.create(model="atlas-mini", prompt="x", max_tokens=8000, extra_body={"ignore_eos": True})
    atlas.until(lambda: atlas.metric("vllm:num_requests_running") == 0 and atlas.metric('vllm:request_success_total{finished_reason="abort"}') == 1)


def test_reasoning_effort_none_turns_thinking_off(client, model):
    answer = client.chat.completions.create(model=model, messages=GREET, temperature=0, reasoning_effort="none")
    assert answer.choices[0].message.content == "a b c d e f g h i j k l m n o p q r s t u v w x y z"
