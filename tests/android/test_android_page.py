"""docs/android.md says what the code says: its Java is the sample's, its tables are complete."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.android.java_build import BRIDGE, ROOT
from tests.android.test_gradle_files import ANDROID, text
from tests.android.test_gradle_files import pom as read_pom

PAGE = (ROOT / "docs" / "android.md").read_text("utf-8")
SAMPLE = BRIDGE / "sample/src/main/java/io/fedrap/sample"


def region(file: str, name: str) -> str:
    """The lines between `// begin: name` and `// end: name`, without their indentation."""
    source = (SAMPLE / file).read_text("utf-8")
    found = re.search(rf"^( *)// begin: {name}\n(.*?)^ *// end: {name}$", source, re.M | re.S)
    assert found is not None, (file, name)
    return re.sub(rf"^{found[1]}", "", found[2], flags=re.M)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_quickstart_is_what_the_sample_compiles_and_runs() -> None:
    assert blocks("java") == [
        region("ShopApp.java", "application"),
        region("Quickstart.java", "activity"),
    ]


def test_the_readme_shows_the_same_lines() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = re.findall(r"```java\n(.*?)```", readme, re.S)
    assert shown == [region("Quickstart.java", "activity")]


def test_the_permissions_are_those_of_the_manifest() -> None:
    manifest = ElementTree.parse(BRIDGE / "android/src/main/AndroidManifest.xml").getroot()
    asked = {one.attrib[f"{ANDROID}name"] for one in manifest.iter("uses-permission")}
    assert set(re.findall(r"\| `(android\.permission\.\w+)` \|", PAGE)) == asked


def test_every_word_for_why_no_round_runs_is_explained() -> None:
    words: set[str] = set()
    for source in (
        BRIDGE / "core/src/main/java/io/fedrap/core/Eligibility.java",
        BRIDGE / "android/src/main/java/io/fedrap/android/RoundStatus.java",
    ):
        words |= set(re.findall(r'public static final String \w+ = "(.*)";', _read(source)))
    table = PAGE.split("### Why does it not run?")[1].split("Any other word")[0]
    rows = re.findall(r"^\| (`.*?`) \|", table, re.M)
    explained = set(re.findall(r"`([a-z-]+)`", " ".join(rows)))
    assert explained == words - {"joined"}


def test_the_numbers_of_jobs_and_versions_are_those_of_the_code() -> None:
    job = _read(BRIDGE / "android/src/main/java/io/fedrap/android/RoundJob.java")
    ids = re.findall(r"int (?:FIRST|SECOND) = (0x[0-9a-f]+);", job)
    assert len(ids) == 2
    for one in ids:
        assert one in PAGE
        assert str(int(one, 16)) in PAGE
    assert f"io.fedrap:fedrap-android:{text(read_pom(), 'version')}" in PAGE
    runtime = re.findall(r"onnxruntime-android:([\d.]+\d)", PAGE)
    assert runtime == re.findall(
        r"onnxruntime-android:([\d.]+\d)", _read(BRIDGE / "ort/build.gradle.kts")
    )


def test_the_commands_are_those_of_the_command_line() -> None:
    shown = _read(BRIDGE / "cli/src/main/java/io/fedrap/cli/DeviceCommand.java")
    for line in re.findall(r"^java -jar \S+ (.*)$", PAGE, re.M):
        for word in re.findall(r"^\w+|--[a-z]+", line):
            assert word in shown, word


def _read(path: object) -> str:
    with open(str(path), encoding="utf-8") as file:
        return file.read()
