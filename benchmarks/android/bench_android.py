"""The Android bridge: trainers and lists in Java and Python in one run, and how large it is.

    python benchmarks/android/bench_android.py [--json PATH] [--seconds 1] [--rules FILE ...]

Needs a JDK of 11 or newer and Maven, and fetches D8/R8 on its first run. Every trainer runs in a
process of its own on the same problems, one thread each; the answers of all are compared. Times are
of this machine's JVM: a phone's runtime is another one, so take the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BRIDGE = HERE.parents[1] / "android_bridge"
CORE_BYTES = 250_000
R8 = "com.android.tools:r8:8.5.35"
FRAMEWORK = "org.robolectric:android-all:14-robolectric-10818077"  # to link the sample against
DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
MIN_API = 26
TRAINERS = ("python numpy", "python onnx", "java jvm", "java onnx")
ABSOLUTE, RELATIVE = 2e-6, 1e-5


class CannotMeasure(Exception):
    """Something is missing; the message says what to install."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints; its own words where it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise CannotMeasure(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def maven(*arguments: str) -> None:
    """Maven in the bridge, quietly."""
    run(_tool("mvn"), "-B", "-q", "-ntp", "-Dstyle.color=never", *arguments, cwd=BRIDGE)


def fetch(artifact: str, work: Path) -> Path:
    """A jar of the world's, copied here by Maven."""
    maven(f"{DEPENDENCIES}:copy", "-N", f"-Dartifact={artifact}", f"-DoutputDirectory={work}")
    _, name, number = artifact.split(":")
    return work / f"{name}-{number}.jar"


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CannotMeasure(f"no {name} here: apt install default-jdk-headless maven")
    return found


def jar_of(module: str) -> Path:
    """The jar of a module."""
    jars = (BRIDGE / module / "target").glob("fedrap-*.jar")
    found = next((jar for jar in jars if not jar.stem.endswith("-tests")), None)
    if found is None:
        raise CannotMeasure(f"Maven built no jar of {module}")
    return found


def measure_trainers(work: Path, seconds: float) -> dict[str, Any]:
    """Times of every trainer on the same problems, as ratios to Python's NumPy."""
    from trainer_cases import CASES, SEED, make_cases, write_cases

    cases = make_cases()
    write_cases(work / "cases.bin", cases)
    runtime = fetch(f"com.microsoft.onnxruntime:onnxruntime:{_runtime_version()}", work)
    classes = ("core/target/classes", "core/target/test-classes", "ort/target/classes")
    path = os.pathsep.join(map(str, [*(BRIDGE / part for part in classes), runtime]))
    found: dict[str, Any] = {}
    for trainer in TRAINERS:
        print(f"measuring {trainer}", file=sys.stderr)
        language, name = trainer.split()
        answers = work / f"{language}-{name}.txt"
        if language == "java":
            main = ["-cp", path, "io.fedrap.core.TrainerTimes", name, str(work / "cases.bin")]
            said = run(_tool("java"), *main, str(seconds), answers)
        else:
            said = run(sys.executable, HERE / "trainer_cases.py", name, str(seconds), answers)
        found[trainer] = json.loads(said)
    truth = _numbers(work / "python-numpy.txt")
    by_case: dict[str, Any] = {}
    for place, (title, *_) in enumerate(CASES):
        rows = {trainer: found[trainer]["cases"][place] for trainer in TRAINERS}
        least = rows[TRAINERS[0]]["min_us"]
        by_case[title] = {
            "problems": len(cases[place]),
            **{t: {**row, "ratio": round(row["min_us"] / least, 3)} for t, row in rows.items()},
        }
    return {
        "seed": SEED,
        "cases": by_case,
        "open_ms": {trainer: round(found[trainer]["open_ms"], 1) for trainer in TRAINERS},
        "error_over_tolerance": {  # at most 1 where it agrees with Python's NumPy
            trainer: _error(truth, _numbers(work / f"{trainer.replace(' ', '-')}.txt"))
            for trainer in TRAINERS[1:]
        },
    }


def measure_lists(work: Path, seconds: float) -> dict[str, Any]:
    """A list of 20 items in both languages, by size of the catalogue."""
    from ranking_cases import CATALOGUES, write_case

    path = os.pathsep.join(str(BRIDGE / "core/target" / p) for p in ("classes", "test-classes"))
    found: dict[str, Any] = {}
    for items in CATALOGUES:
        print(f"measuring lists of {items} items", file=sys.stderr)
        case = work / "ranking.bin"
        write_case(case, items)
        main = ("-cp", path, "io.fedrap.core.RankingTimes", case, str(seconds))
        java = json.loads(run(_tool("java"), *main))
        script = HERE / "ranking_cases.py"
        python = json.loads(run(sys.executable, script, str(items), str(seconds)))
        found[f"{items} items"] = {
            "same_list": java.pop("rows") == python.pop("rows"),
            "java": java,
            "python": python,
            "ratio_of_lists": round(java["list_us"] / python["list_us"], 3),
        }
    return found


def _numbers(path: Path) -> list[float]:
    return [float(word) for word in path.read_text().split()]


def _error(truth: list[float], found: list[float]) -> float:
    allowed = [
        abs(a - b) / (ABSOLUTE + RELATIVE * abs(a)) for a, b in zip(truth, found, strict=True)
    ]
    return float(f"{max(allowed):.3g}")


def measure_sizes(work: Path, rules: list[Path], library: Path) -> dict[str, Any]:
    """Bytes of each jar, of its dex by D8, and of what R8 leaves of it for an app."""
    tool = fetch(R8, work)
    jars = {module: jar_of(module) for module in ("core", "ort", "android", "sample")}
    core = jars["core"]
    whole, shrunk, sample = work / "d8.zip", work / "r8.zip", work / "sample.zip"
    java: list[str | Path] = [_tool("java"), "-cp", tool]
    options: list[str | Path] = ["--release", "--min-api", str(MIN_API), "--lib", library]
    run(*java, "com.android.tools.r8.D8", *options, "--output", whole, core)
    kept: list[str | Path] = [
        part for rule in (HERE / "app.pro", *rules) for part in ("--pg-conf", rule)
    ]
    run(*java, "com.android.tools.r8.R8", *options, *kept, "--output", shrunk, core)
    app: list[str | Path] = [
        part for rule in (HERE / "sample.pro", *rules) for part in ("--pg-conf", rule)
    ]
    app += ["--lib", fetch(FRAMEWORK, work), "--output", sample]
    parts = [jars[module] for module in ("core", "android", "sample")]
    run(*java, "com.android.tools.r8.R8", *options, *app, *parts)
    size = core.stat().st_size
    return {
        "jar_bytes": {module: jar.stat().st_size for module, jar in jars.items()},
        "core_limit_bytes": CORE_BYTES,
        "core_under_limit": size < CORE_BYTES,
        "dex_bytes_by_d8": _dex(whole),
        "dex_bytes_after_r8": _dex(shrunk),
        "dex_bytes_of_the_sample_app_after_r8": _dex(sample),
        "rules": [rule.name for rule in rules] or "none: no consumer-rules.pro here",
    }


def _dex(path: Path) -> dict[str, int]:
    with zipfile.ZipFile(path) as archive:
        (entry,) = [one for one in archive.infolist() if one.filename.endswith(".dex")]
        return {"plain": entry.file_size, "in_an_apk": entry.compress_size}


def _runtime_version() -> str:
    pattern = r"<artifactId>onnxruntime</artifactId>\s*<version>(.*?)<"
    found = re.search(pattern, (BRIDGE / "ort" / "pom.xml").read_text("utf-8"))
    assert found is not None
    return found[1]


def _versions() -> dict[str, str]:
    java = subprocess.run([_tool("java"), "-version"], capture_output=True, text=True).stderr
    return {
        "java": java.split('"')[1] if '"' in java else java,
        "onnxruntime_java": _runtime_version(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "onnxruntime")},
    }


def main(argv: list[str] | None = None) -> int:
    """Print or write everything as JSON; 1 where core is too large or answers differ."""
    usual = BRIDGE / "android" / "consumer-rules.pro"
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the result here instead of printing it")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    parser.add_argument(
        "--rules", type=Path, action="append", help=f"for R8; {usual.name} of the bridge by default"
    )
    parser.add_argument("--library", type=Path, help="what D8 and R8 link against; the JDK")
    given = parser.parse_args(argv)
    rules: list[Path] = given.rules or ([usual] if usual.exists() else [])
    try:
        library = given.library or Path(_tool("javac")).resolve().parents[1]
        maven("package", "-DskipTests")
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            sizes = measure_sizes(work, rules, library)
            trainers = measure_trainers(work, given.seconds)
            lists = measure_lists(work, given.seconds)
    except CannotMeasure as error:
        print(f"the Android bridge was not measured: {error}", file=sys.stderr)
        return 2
    result = {
        "benchmark": "android",
        "threads": 1,
        "versions": _versions(),
        "sizes": sizes,
        "trainers": trainers,
        "lists": lists,
    }
    text = json.dumps(result, indent=2) + "\n"
    if given.json:
        given.json.write_text(text)
    else:
        print(text, end="")
    agree = all(error <= 1 for error in trainers["error_over_tolerance"].values())
    agree = agree and all(one["same_list"] for one in lists.values())
    return 0 if agree and sizes["core_under_limit"] else 1


if __name__ == "__main__":
    sys.exit(main())
