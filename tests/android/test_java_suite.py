"""The Java side: every module builds and passes its own tests, and replays the golden vectors."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.android.java_build import (
    BRIDGE,
    MISSING,
    ROOT,
    JavaBuild,
    build_java,
    find_java,
)

CORE_BYTES = 250_000  # with lines in stack traces
NOT_FOR_A_DEVICE = {"learn_step"}  # the coordinator's step on C


@pytest.fixture(scope="module")
def java() -> JavaBuild:
    return build_java()


def test_every_module_builds_and_passes_its_tests(java: JavaBuild) -> None:
    assert java.status == 0, java.said[-6000:]
    assert {"core", "ort", "measure", "split", "android", "cli", "sample"} == set(java.modules)
    for module in java.modules:
        assert java.ran(module) > 0, f"{module} ran no tests"


def test_the_core_is_small_and_brings_nothing_along(java: JavaBuild) -> None:
    assert java.status == 0, java.said[-6000:]
    assert java.jar("core").stat().st_size < CORE_BYTES
    listing = subprocess.run(
        ["jar", "tf", java.jar("core")], capture_output=True, text=True, check=True
    )
    files = {name for name in listing.stdout.split() if not name.endswith("/")}
    assert "io/fedrap/core/JvmTrainer.class" in files
    assert {name for name in files if not name.startswith("io/fedrap/core/")} == {
        "META-INF/MANIFEST.MF"
    }


def test_the_aar_has_what_an_app_takes_and_the_sample_compiles_against_it(
    java: JavaBuild, tmp_path: Path
) -> None:
    assert java.status == 0, java.said[-6000:]
    (aar,) = (BRIDGE / "android" / "target").glob("fedrap-android-*.aar")
    with zipfile.ZipFile(aar) as archive:
        archive.extractall(tmp_path)
        assert set(archive.namelist()) == {
            "AndroidManifest.xml", "classes.jar", "proguard.txt", "R.txt",
        }  # fmt: skip
    manifest = ElementTree.parse(tmp_path / "AndroidManifest.xml").getroot()
    assert manifest.attrib["package"] == "io.fedrap.android"
    assert "RoundJobService" in _text(tmp_path / "proguard.txt")
    version = re.findall(r"<android.framework>(.*?)<", _text(BRIDGE / "pom.xml"))[0]
    local = Path.home() / ".m2/repository/org/robolectric/android-all" / version
    framework = local / f"android-all-{version}.jar"
    sources = sorted(map(str, (BRIDGE / "sample/src/main/java").rglob("*.java")))
    subprocess.run(
        ["javac", "-proc:none", "-nowarn", "-d", str(tmp_path / "out"), "-cp",
         f"{tmp_path / 'classes.jar'}:{java.jar('core')}:{java.jar('ort')}:{framework}", *sources],
        check=True, capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "out/io/fedrap/sample/MainActivity.class").exists()


@pytest.mark.long
def test_kotlin_compiles_against_the_core_and_its_tests_pass() -> None:
    maven = find_java()
    if maven is None:
        pytest.skip(MISSING)
    done = subprocess.run(
        [maven, "--batch-mode", "--quiet", "-Pkotlin", "-pl", "core,kotlin", "-Dtest=KotlinTest",
         "-Dsurefire.failIfNoSpecifiedTests=false", "verify"],
        cwd=BRIDGE, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    assert JavaBuild(0, "").ran("kotlin") == 3


@pytest.mark.long
def test_a_release_has_jars_of_sources_and_of_documentation() -> None:
    maven = find_java()
    if maven is None:
        pytest.skip(MISSING)
    done = subprocess.run(
        [maven, "--batch-mode", "--quiet", "-Prelease", "-DskipTests", "-pl", "core,android",
         "package"],
        cwd=BRIDGE, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    for module in ("core", "android"):
        for kind, inside in (("sources", ".java"), ("javadoc", ".html")):
            (jar,) = (BRIDGE / module / "target").glob(f"fedrap-{module}-*-{kind}.jar")
            with zipfile.ZipFile(jar) as archive:
                assert any(name.endswith(inside) for name in archive.namelist())


def test_java_replays_every_vector_that_a_device_has_to_do_with() -> None:
    asked: set[str] = set()
    for path in BRIDGE.glob("*/src/test/java/**/*.java"):
        asked |= set(re.findall(r'Vectors\s*\.(?:each|cases)\(\s*"(\w+)"', _text(path)))
    known = {path.stem for path in (ROOT / "spec" / "vectors").glob("*.json")}
    assert known - asked == NOT_FOR_A_DEVICE
    assert asked <= known


def _text(path: Path) -> str:
    return path.read_text("utf-8")
