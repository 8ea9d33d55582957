"""atheris over every decoder and the coordinator's HTTP side, for as long as is wanted. JSON out.

python -m tests.fuzz.run_atheris --seconds 60 [--json FILE]     (pip install atheris)
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HTTP = "http"
HTTP_SHARE = 6  # it is slower than a decoder, and has more to find


def _one(name: str, seconds: int, corpus: str) -> None:
    """In a process of its own: libFuzzer never comes back."""
    import atheris

    with atheris.instrument_imports(include=["fedrap_core", "fedrap_coordinator", "msgpack"]):
        from tests.fuzz.http_target import HttpTarget
        from tests.fuzz.targets import feed

    http = HttpTarget() if name == HTTP else None

    def target(raw: bytes) -> None:
        if http is None:
            feed(name, bytes(raw))
        else:
            http.feed(bytes(raw))

    limits = [f"-max_total_time={seconds}", "-rss_limit_mb=1024", "-max_len=4096", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *limits, corpus], target)
    atheris.Fuzz()


def main(argv: list[str] | None = None) -> int:
    """1 when a target raised something that is not ours, or grew beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="in all")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--target", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.target:
        _one(arguments.target, arguments.seconds, arguments.corpus)
        return 0
    from tests.core.messages_made import ALL_MESSAGES
    from tests.fuzz.seeds import HTTP_SEEDS
    from tests.fuzz.targets import TARGETS

    each = max(1, arguments.seconds // (len(TARGETS) + HTTP_SHARE))
    found = {}
    with tempfile.TemporaryDirectory() as corpus:
        for number, kind in enumerate(ALL_MESSAGES):  # something to start from
            tag = kind.__struct_config__.tag
            seed = b"\x82\xa1v\x01\xa4type" + bytes([0xA0 | len(str(tag))]) + str(tag).encode()
            (Path(corpus) / f"seed{number}").write_bytes(seed)
        http_corpus = Path(corpus) / "http"
        http_corpus.mkdir()
        for number, seed in enumerate(HTTP_SEEDS):
            (http_corpus / f"seed{number}").write_bytes(seed)
        for name in (*TARGETS, HTTP):
            here, share = (http_corpus, HTTP_SHARE) if name == HTTP else (Path(corpus), 1)
            done = subprocess.run(
                [sys.executable, "-m", "tests.fuzz.run_atheris", "--target", name, "--corpus",
                 str(here), "--seconds", str(each * share)],
                capture_output=True, text=True, env=os.environ | {"PYTHONPATH": os.getcwd()},
                cwd=os.getcwd(),
            )  # fmt: skip
            found[name] = done.returncode
            if done.returncode:
                print(done.stdout[-2000:], done.stderr[-3000:], file=sys.stderr)
            print(f"{name}: {'holds' if done.returncode == 0 else 'BROKEN'}", file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    result = {
        "seconds_each": each, "targets": len(found), "peak_megabytes": peak,
        "broken": sorted(name for name, code in found.items() if code),
    }  # fmt: skip
    print(json.dumps(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if result["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
