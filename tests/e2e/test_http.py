"""HTTP as bytes on a socket: framing, limits, what must not be understood in two ways (contract: HTTP, Errors)."""
import json
import re
import socket
import time

import pytest

BODY = json.dumps({"prompt": "one two", "max_tokens": 1, "temperature": 0}).encode()


class Wire:
    """One connection; every wait is bounded."""

    def __init__(self, atlas, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", atlas.port))
        self.got = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)
        return self

    def post(self, path, body, fields=b""):
        return self.send(b"POST %s HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n%s\r\n%s" % (path, len(body), fields, body))

    def more(self):
        data = self.socket.recv(65536)
        self.got += data
        return bool(data)

    def until(self, mark):
        while mark not in self.got:
            assert self.more(), self.got
        at = self.got.index(mark) + len(mark)
        taken, self.got = self.got[:at], self.got[at:]
        return taken

    def answer(self):
        """(status, headers, body) of the next answer that has a length."""
        head = self.until(b"\r\n\r\n").decode()
        headers = {name.lower(): value for name, value in re.findall(r"^([\w-]+): (.*)\r$", head, re.M)}
        length = int(headers.get("content-length", 0))
        while len(self.got) < length:
            assert self.more(), self.got
        body, self.got = self.got[:length], self.got[length:]
        return int(head.split()[1]), headers, body

    def closed(self):
        try:
            while self.more():
                pass
        except ConnectionResetError:
            pass
        return True


def test_a_connection_serves_requests_one_after_the_other_and_pipelined(mini):
    with Wire(mini) as wire:
        for _ in range(3):
            assert wire.post(b"/v1/completions", BODY).answer()[0] == 200
        ask = b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nx-request-id: %d\r\nContent-Length: %d\r\n\r\n%s"
        wire.send(b"".join(ask % (i, len(BODY), BODY) for i in range(5)) + b"GET /nothing HTTP/1.1\r\nHost: t\r\n\r\n")
        answers = [wire.answer() for _ in range(6)]
        assert [status for status, _, _ in answers] == [200] * 5 + [404]
        assert [headers["x-request-id"] for _, headers, _ in answers[:5]] == [str(i) for i in range(5)]


def test_connection_close_and_http_1_0_close(mini):
    with Wire(mini) as wire:
        assert wire.send(b"GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").answer()[1]["connection"] == "close"
        assert wire.closed()
    with Wire(mini) as wire:
        assert wire.send(b"GET /health HTTP/1.0\r\n\r\n").answer()[0] == 200
        assert wire.closed()


def test_a_chunked_body_is_read_with_extensions_and_trailer(mini):
    with Wire(mini) as wire:
        wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(BODY), 7):
            piece = BODY[i:i + 7]
            wire.send(b"%x;a=b\r\n%s\r\n" % (len(piece), piece))
        assert wire.send(b"0\r\nX-Sum: 1\r\n\r\n").answer()[0] == 200
        assert wire.send(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n").answer()[0] == 200


def test_a_body_that_waits_for_leave_gets_it(mini):
    with Wire(mini) as wire:
        wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        assert wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert wire.send(BODY).answer()[0] == 200


TWO_WAYS = {
    "both lengths": b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "the same length twice": b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": b"Content-Length: +3\r\n\r\nabc",
    "a length too large": b"Content-Length: 18446744073709551619\r\n\r\nabc",
    "chunked twice": b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked and more": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "nearly chunked": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "blank before the colon": b"Content-Length : 3\r\n\r\nabc",
    "folded field": b"X: a\r\n Content-Length: 3\r\n\r\nabc",
    "folded encoding": b"Transfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n",
    "bare line feed": b"X: a\nContent-Length: 3\r\n\r\nabc",
    "bare line feeds": b"Content-Length: 3\n\nabc",
    "bare carriage return": b"X: a\rContent-Length: 3\r\n\r\nabc",
    "a NUL": b"X: a\0b\r\nContent-Length: 3\r\n\r\nabc",
    "no chunk size": b"Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n",
    "letters for a chunk size": b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n0\r\n\r\n",
    "a hexadecimal prefix": b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "a signed chunk size": b"Transfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n",
    "a chunk size too large": b"Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n",
    "a chunk that is longer": b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "a chunk without its end": b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc0\r\n\r\n",
    "chunks with line feeds": b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
}


@pytest.mark.parametrize("fields", TWO_WAYS.values(), ids=TWO_WAYS.keys())
def test_what_could_be_read_in_two_ways_is_refused_and_the_connection_ends(mini, fields):
    with Wire(mini) as wire:
        wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: t\r\n" + fields + b"GET /version HTTP/1.1\r\nHost: smuggled\r\n\r\n")
        status, headers, body = wire.answer()
        assert status in (400, 413, 501) and headers["connection"] == "close", body
        assert json.loads(body)["error"]["message"]
        assert wire.closed() and b"HTTP/1.1" not in wire.got  # nothing that came behind was answered


def test_an_encoding_and_hosts_that_are_no_http_are_refused(mini):
    for bytes_, wanted in ((b"hello\r\n\r\n", 400), (b"GET /health HTTP/1.1\r\n\r\n", 400), (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
                           (b"GET /health HTTP/3.0\r\nHost: t\r\n\r\n", 505), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
                           (b"POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415),
                           (b"POST /tokenize HTTP/1.1\r\nHost: t\r\nExpect: much\r\nContent-Length: 2\r\n\r\n{}", 417)):
        with Wire(mini) as wire:
            assert wire.send(bytes_).answer()[0] == wanted, bytes_
            assert wire.closed()


def test_limits_of_head_target_body_and_time(start):
    atlas = start("--max-body-bytes=1000", "--header-timeout=0.3")
    for request, wanted in ((b"GET /health HTTP/1.1\r\nHost: t\r\nX: " + b"a" * 40000 + b"\r\n\r\n", 431), (b"GET /" + b"a" * 40000, 414),
                            (b"POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 1001\r\n\r\n", 413),
                            (b"POST /tokenize HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b" " * 1001 + b"\r\n0\r\n\r\n", 413),
                            (b"GET /health HTTP/1.1\r\nHost:", 408), (b"POST /tokenize HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n{", 408)):
        with Wire(atlas) as wire:
            status, _, body = wire.send(request).answer()
            assert status == wanted, request[:60]
            assert json.loads(body)["error"]["type"] == "invalid_request_error"
            assert wire.closed()
    with Wire(atlas) as wire:
        assert wire.post(b"/tokenize", b'{"prompt":"' + b"a" * 987 + b'"}').answer()[0] == 200


def test_methods(mini):
    with Wire(mini) as wire:
        wire.send(b"HEAD /health HTTP/1.1\r\nHost: t\r\n\r\n")
        assert b" 200 " in wire.until(b"\r\n\r\n")
        status, headers, _ = wire.send(b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: t\r\n\r\n").answer()
        assert status == 204 and "POST" in headers["allow"] and "access-control-allow-origin" not in headers
        for method, path, allowed in ((b"GET", b"/v1/completions", "POST"), (b"DELETE", b"/health", "GET"), (b"PUT", b"/tokenize", "POST"),
                                      (b"PATCH", b"/v1/models", "GET")):
            status, headers, body = wire.send(b"%s %s HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n" % (method, path)).answer()
            assert status == 405 and allowed in headers["allow"] and json.loads(body)["error"]["code"] == "method_not_allowed"


def test_cross_origin_fields(start):
    atlas = start("--cors-origin=https://a.example")
    with Wire(atlas) as wire:
        status, headers, _ = wire.send(b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: t\r\nOrigin: https://a.example\r\n"
                                       b"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, x-mine\r\n\r\n").answer()
        assert status == 204 and headers["access-control-allow-origin"] == "https://a.example" and headers["vary"] == "Origin"
        assert "POST" in headers["access-control-allow-methods"] and headers["access-control-allow-headers"] == "authorization, x-mine"
        status, headers, _ = wire.post(b"/v1/completions", BODY).answer()
        assert status == 200 and headers["access-control-allow-origin"] == "https://a.example"
        assert wire.post(b"/v1/completions", b"{").answer()[1]["access-control-allow-origin"] == "https://a.example"


def test_a_reader_that_takes_nothing_pauses_its_own_sequence_and_gets_everything_later(start):
    atlas = start()
    body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 3000, "ignore_eos": True, "temperature": 1, "seed": 1,
                       "logprobs": True, "top_logprobs": 20, "stream": True}).encode()
    with Wire(atlas, receive_buffer=4096) as wire:
        wire.post(b"/v1/chat/completions", body, b"Connection: close\r\n")
        generated = lambda: atlas.metric("vllm:generation_tokens_total")
        seen = {"count": -1.0, "since": 0.0}

        def stands_still():
            count = generated()
            if count != seen["count"] or count == 0:
                seen.update(count=count, since=time.monotonic())
            return time.monotonic() - seen["since"] > 1

        atlas.until(stands_still, 60)
        assert 0 < generated() < 3000
        assert atlas.metric("vllm:num_requests_running") == 1
        assert atlas.post("/v1/completions", {"prompt": [3], "max_tokens": 3})[0] == 200  # nobody else is held up
        wire.closed()
        assert b"data: [DONE]\n\n" in wire.got
        assert wire.got.count(b'"top_logprobs"') == 3000
    atlas.until(lambda: atlas.metric("vllm:num_requests_running") == 0)


def test_text_is_valid_utf_8_whatever_is_sampled(mini):
    for seed in range(4):
        body = {"prompt": "é😀", "max_tokens": 120, "temperature": 2, "seed": seed, "ignore_eos": True}
        whole = mini.post("/v1/completions", body)[1]["choices"][0]["text"]
        streamed = "".join(e["choices"][0]["text"] for e in mini.events("/v1/completions", body) if e != "[DONE]" and e["choices"])
        assert whole == streamed
        whole.encode("utf-8")
