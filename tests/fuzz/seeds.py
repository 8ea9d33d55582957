"""Requests to start from: good ones, and tricks that parsers have fallen for."""

from __future__ import annotations

_HOST = b"Host: f\r\n"
_SIGNED = b"Fedrap-Device: %s\r\nFedrap-Nonce: 9\r\nFedrap-Signature: AAAA\r\n" % (b"0" * 32)


_JSON = b"Content-Type: application/json\r\nContent-Length: 2\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"


def _request(line: bytes, headers: bytes = b"", body: bytes = b"", *, admin: bool = False) -> bytes:
    """As it is, to the devices' app or the admins'."""
    return (
        (b"\x08" if admin else b"\x00") + line + b" HTTP/1.1\r\n" + _HOST + headers + b"\r\n" + body
    )


HTTP_SEEDS = [
    b"",
    b"\x00\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
    _request(b"GET /healthz"),
    _request(b"HEAD /v1/catalogue"),
    _request(b"OPTIONS *"),
    _request(b"GET /v1/releases/latest"),
    _request(b"GET /v1/releases/99999999999999999999"),
    _request(b"GET /v1/releases/%00"),
    _request(b"GET /v1/catalogue?start=-1"),
    _request(b"GET /v1/catalogue?start=%ff"),
    _request(b"GET /v1/catalogue?start=1e9&start=2", b"Accept-Encoding: gzip;q=nan\r\n"),
    _request(b"GET http://elsewhere/v1/privacy"),
    _request(b"GET //..//v1/privacy"),
    _request(b"GET /" + b"a" * 9000),
    _request(b"GET /healthz", b"X: " + b"a" * 9000 + b"\r\n"),
    _request(b"GET /healthz", b"X: a\r\n" * 200),
    _request(b"DELETE /v1/offers"),
    _request(b"CONNECT f:1"),
    _request(b"POST /v1/enrol", b"Content-Length: 4\r\n", b"\x81\xa1v\x01"),
    _request(b"POST /v1/enrol", b"Content-Length: 5\r\n", b"\xdd\xff\xff\xff\xff"),
    _request(b"POST /v1/enrol", b"Content-Length: 99999999\r\n", b"x"),
    _request(b"POST /v1/enrol", b"Content-Length: -1\r\n", b"x"),
    _request(b"POST /v1/enrol", b"Content-Length: 1\r\nContent-Length: 2\r\n", b"xx"),
    _request(b"POST /v1/enrol", _CHUNKED + b"Content-Length: 3\r\n", b"0\r\n\r\n"),
    _request(b"POST /v1/enrol", _CHUNKED, b"ffffffffffffffff\r\nx"),
    _request(b"POST /v1/enrol", _CHUNKED, b"1;a=" + b"b" * 9000 + b"\r\nx"),
    _request(b"POST /v1/enrol", b"Transfer-Encoding: gzip, chunked\r\n", b"1\r\nx\r\n0\r\n\r\n"),
    _request(b"POST /v1/enrol", b"Content-Encoding: deflate\r\nContent-Length: 2\r\n", b"\x00\x00"),
    _request(b"POST /v1/enrol", b"Content-Encoding: gzip\r\nContent-Length: 2\r\n", b"\x1f\x8b"),
    _request(b"POST /v1/offers", b"Expect: 100-continue\r\nContent-Length: 9\r\n"),
    _request(b"POST /v1/offers", b"Expect: nothing\r\nContent-Length: 0\r\n"),
    _request(b"POST /v1/offers", _SIGNED + b"Content-Length: 0\r\n"),
    _request(b"POST /v1/rounds/zz/updates", _SIGNED + b"Content-Length: 1\r\n", b"x"),
    _request(b"GET /healthz", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    _request(b"GET /healthz", b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"\x81\x05hello"),
    _request(b"GET /healthz", b"", b"GET /healthz HTTP/1.1\r\nHost: f\r\n\r\nPOST /v1/enrol"),
    _request(b"GET /", admin=True),
    _request(b"GET /admin/v1/overview", b"Authorization: Bearer no\r\n", admin=True),
    _request(b"GET /admin/v1/overview", b"Cookie: fedrap-session=a.1.b.c\r\n", admin=True),
    _request(b"GET /events", b"Cookie: fedrap-session=\xff; =;;\r\n", admin=True),
    _request(b"POST /session", _JSON, b"[[", admin=True),
    _request(b"POST /session", b"Content-Type: application/json;charset=x\r\n", admin=True),
    _request(b"DELETE /session", b"Cookie: fedrap-session=" + b"." * 300 + b"\r\n", admin=True),
    _request(b"POST /admin/v1/items", b"Content-Length: 1\r\n", b"x", admin=True),
    b"\x01\x81\xa1v\x01",
    b"\x05",
    b"\x09" + b"\x00" * 100,
    b"\x0d\x83\xa1v\x01",
    b"\x31" + b"z" * 100,
    b"\x07limit=nan&start=\xff",
    b"\x0bafter=99999999999999999999",
]  # fmt: skip
