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
