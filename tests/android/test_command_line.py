"""The Java device on the command line, at a real coordinator."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import ITEMS, serve, small_settings
from tests.android.java_build import build_java


async def test_the_command_line_joins_a_round_and_recommends(tmp_path: Path) -> None:
    jar = build_java().jar("cli")
    history = tmp_path / "history.csv"
    history.write_text("item\n" + "\n".join(ITEMS[:5]) + "\n", encoding="utf-8")

    async def command(*words: str) -> tuple[int, str]:
        store = ["--store", str(tmp_path / "store")]
        run = await asyncio.create_subprocess_exec(
            "java", "-jar", str(jar), *words, *store, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await run.communicate()
        return run.returncode or 0, said.decode()

    async with serve(small_settings(updates=2), MemoryStore()) as served:
        token = await served.token()
        join = ["join", served.url, "--token", token, "--history", str(history), "--agree"]
        code, said = await command(*join, "--recommend", "3", "--no-privacy")
        assert code == 0, said
        assert "Joined: " in said
        assert [line.split()[-1] for line in said.splitlines()[-3:]] == ITEMS[5:8]
        code, said = await command("join")
        assert (code, said.splitlines()[0]) == (1, "Not joined: already-in-round.")
        code, said = await command("erase", "--yes")
        assert (code, "has forgotten this device" in said) == (0, True)
