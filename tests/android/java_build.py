"""The Java modules of android_bridge/, built and tested once by Maven, for tests that need them.

Where there is no JDK or no Maven the tests are skipped with a line that says what to install.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
BRIDGE = ROOT / "android_bridge"
OLDEST_JDK = 11
QUICK_JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # for processes of some seconds
MISSING = "no JDK 11 and Maven here: apt install default-jdk-headless maven"


@dataclass(frozen=True)
class JavaBuild:
    """What Maven said, and where it put things."""

    status: int
    said: str

    @property
    def modules(self) -> list[str]:
        """The modules of every build, in the order in which they are built."""
        usual = (BRIDGE / "pom.xml").read_text("utf-8").split("<profiles>")[0]
        return re.findall(r"<module>(.*?)</module>", usual)

    def jar(self, module: str) -> Path:
        """The jar of a module."""
        (jar,) = [
            found
            for found in (BRIDGE / module / "target").glob("fedrap-*.jar")
            if not found.stem.endswith(("-tests", "-sources", "-javadoc"))
        ]
        return jar

    def ran(self, module: str) -> int:
        """How many tests of a module ran, those that were skipped not counted."""
        count = 0
        for report in (BRIDGE / module / "target" / "surefire-reports").glob("TEST-*.xml"):
            suite = ElementTree.parse(report).getroot()
            count += int(suite.attrib["tests"]) - int(suite.attrib["skipped"])
        return count


def find_java() -> str | None:
    """Maven with a JDK that is new enough, or None."""
    maven, compiler = shutil.which("mvn"), shutil.which("javac")
    if maven is None or compiler is None:
        return None
    said = subprocess.run([compiler, "-version"], capture_output=True, text=True)
    version = re.search(r"javac (\d+)", said.stdout + said.stderr)
    return maven if version is not None and int(version[1]) >= OLDEST_JDK else None


@lru_cache(maxsize=1)
def build_java() -> JavaBuild:
    """`mvn verify` of all modules, once; skips the test that asks where that cannot be done.

    Once also where the tests run in several processes: the others wait for the first.
    """
    maven = find_java()
    if maven is None:
        pytest.skip(MISSING)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"alone {os.getpid()}")
    kept = BRIDGE / "target" / "built.json"
    kept.parent.mkdir(exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
        if before.get("run") != run:
            built = _build(maven)
            before = {"run": run, "status": built.status, "said": built.said}
            kept.write_text(json.dumps(before), "utf-8")
    return JavaBuild(before["status"], before["said"])


def _build(maven: str) -> JavaBuild:
    for module in JavaBuild(0, "").modules:  # reports of tests that are gone must not count
        shutil.rmtree(BRIDGE / module / "target" / "surefire-reports", ignore_errors=True)
    quick = f"-DargLine={' '.join(QUICK_JVM)}"
    command = [maven, "--batch-mode", "--quiet", "-Dstyle.color=never", quick, "verify"]
    done = _run([*command, "--offline"])
    if done.returncode and "offline" in done.stdout:  # a first run has to fetch plugins
        done = _run([*command, "--no-transfer-progress"])
    return JavaBuild(done.returncode, done.stdout)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=BRIDGE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"MAVEN_OPTS": " ".join(QUICK_JVM)},
    )
