"""The Gradle files of an app developer's machine say what the poms say.

No Android SDK is needed here, so Gradle itself is not run: what is compared is what could drift.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.android.java_build import BRIDGE

POM = "{http://maven.apache.org/POM/4.0.0}"
ANDROID = "{http://schemas.android.com/apk/res/android}"
TOOLS = "{http://schemas.android.com/tools}"
AARS = ("android", "ort")
MODULES = ("core", "ort", "measure", "split", "android", "sample")


def gradle(module: str) -> str:
    return (BRIDGE / module / "build.gradle.kts").read_text("utf-8")


def pom(module: str = "") -> ElementTree.Element:
    return ElementTree.parse(BRIDGE / module / "pom.xml").getroot()


def text(element: ElementTree.Element, path: str) -> str:
    found = element.findtext("/".join(POM + part for part in path.split("/")))
    assert found is not None, path
    return found


def one(pattern: str, source: str) -> str:
    (found,) = set(re.findall(pattern, source))
    return str(found)


def test_the_modules_are_those_of_maven_and_have_the_same_names() -> None:
    settings = (BRIDGE / "settings.gradle.kts").read_text("utf-8")
    named = re.findall(r'"(\w+)"', one(r"listOf\((.*)\)", settings))
    maven = [element.text for element in pom().iter(f"{POM}module")]
    assert named == list(MODULES)
    assert set(maven) - set(named) == {"cli", "kotlin"}  # for a desk; and only with -Pkotlin
    assert one(r'include\("(.*)"\)', settings) == ":fedrap-$module"
    assert one(r'rootProject.name = "(.*)"', settings) == text(pom(), "artifactId")
    for module in named:
        assert text(pom(module), "artifactId") == f"fedrap-{module}"


def test_versions_are_those_of_maven() -> None:
    root = (BRIDGE / "build.gradle.kts").read_text("utf-8")
    assert one(r'version = "(.*)"', root) == text(pom(), "version")
    assert one(r'group = "(.*)"', root) == text(pom(), "groupId")
    runtime = one(r"onnxruntime-android:([\d.]+)", gradle("ort"))
    (maven,) = [
        text(element, "version")
        for element in pom("ort").iter(f"{POM}dependency")
        if text(element, "artifactId") == "onnxruntime"
    ]
    assert runtime == maven


def test_the_levels_are_what_maven_checks() -> None:
    parent = (BRIDGE / "pom.xml").read_text("utf-8")
    least = one(r"gummy-bears-api-(\d+)", parent)
    framework = one(r"<android.framework>(\d+)-", parent)
    assert text(pom(), "properties/maven.compiler.release") == "8"
    for module in MODULES:
        assert set(re.findall(r"JavaVersion\.(\w+)", gradle(module))) == {"VERSION_1_8"}
    for module in (*AARS, "sample"):
        assert one(r"minSdk = (\d+)", gradle(module)) == least
        assert int(one(r"compileSdk = (\d+)", gradle(module))) == int(framework) + 20  # 14 is 34


@pytest.mark.parametrize("module", AARS)
def test_an_aar_has_its_rules_and_a_manifest_without_what_gradle_says(module: str) -> None:
    rules = one(r'consumerProguardFiles\("(.*)"\)', gradle(module))
    assert (BRIDGE / module / rules).is_file()
    manifest = ElementTree.parse(BRIDGE / module / "src/main/AndroidManifest.xml").getroot()
    assert "package" not in manifest.attrib  # the namespace has it
    assert manifest.find("uses-sdk") is None
    namespace = one(r'namespace = "(.*)"', gradle(module))
    folder = BRIDGE / module / "src/main/java" / Path(*namespace.split("."))
    assert list(folder.glob("*.java"))
    (provider,) = manifest.iter("provider")
    assert provider.attrib[f"{ANDROID}name"] == "ai.onnxruntime.TelemetryInitializer"
    assert provider.attrib[f"{TOOLS}node"] == "remove"


def test_the_graph_goes_where_the_trainer_looks() -> None:
    maven = text(pom("ort"), "build/resources/resource/targetPath")
    assert f'into("{maven}")' in gradle("ort")
    named = re.findall(r'"(\w+\.onnx)"', one(r"include\((.*)\)", gradle("ort")))
    assert named == ["solve_v1.onnx", "sequence_v1.onnx"]
