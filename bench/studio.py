"""The studio's page in a browser without a screen: how many frames a second it draws, and how long it works on each.

A town is played to it by `studio/test/play.mjs`, since the number of entities must be exact and a broker beside would
take the processor from the browser. All entities move in every tick. There is no graphics processor here: the
figures are what a slow laptop does. Needs node, `npm ci` in studio/, and Chromium.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

from playwright.sync_api import CDPSession, Page, sync_playwright

from bench import progress
from bench.children import tied

TAKES = "1 minute"
NEEDS = {
    "node": "apt-get install nodejs",
    "studio/node_modules": "make studio",
    "chromium": "apt-get install chromium",
}
STUDIO = Path(__file__).parent.parent / "studio"
CHROMIUM = which("chromium") or "/usr/bin/chromium"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
ENTITIES = (500, 2_000)
TICKS_PER_S = 10
SECONDS = 15
PORT = 8640

MEASURE = """async (seconds) => {
  const took = { "studio.tick": [], "studio.draw": [] };
  const watch = new PerformanceObserver((list) => {
    for (const one of list.getEntries()) took[one.name]?.push(one.duration);
  });
  watch.observe({ entryTypes: ["measure"] });
  const frames = [];
  const began = performance.now();
  await new Promise((done) => {
    const frame = (now) => {
      frames.push(now);
      if (now - began < seconds * 1000) requestAnimationFrame(frame);
      else done();
    };
    requestAnimationFrame(frame);
  });
  watch.disconnect();
  const gaps = frames.slice(1).map((at, i) => at - frames[i]).sort((a, b) => a - b);
  const at = (list, part) => list.sort((a, b) => a - b)[Math.floor(part * (list.length - 1))] ?? 0;
  return {
    frames_per_s: (1000 * (frames.length - 1)) / (frames.at(-1) - frames[0]),
    gap_ms_p95: at(gaps, 0.95),
    ticks_per_s: took["studio.tick"].length / seconds,
    tick_ms_median: at(took["studio.tick"], 0.5),
    tick_ms_p95: at(took["studio.tick"], 0.95),
    draw_ms_median: at(took["studio.draw"], 0.5),
    draw_ms_p95: at(took["studio.draw"], 0.95),
  };
}"""


def busy_s(tools: CDPSession) -> float:
    """Processor time of the page's main thread: what others do on the machine at the same time does not change it."""
    metrics = tools.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def measure(page: Page, entities: int) -> dict[str, float]:
    town = ["--brokers=1", "--space=plane", "--moving", f"--entities={entities}", f"--rate={TICKS_PER_S}"]
    player = subprocess.Popen(
        ["node", "test/play.mjs", f"--port={PORT}", *town],
        cwd=STUDIO,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=tied,
    )
    assert player.stdout is not None
    try:
        player.stdout.readline()
        page.goto(f"http://127.0.0.1:{PORT}/studio/")
        shown = f"document.querySelector('#counters dd')?.textContent.replace(/\\D/g, '') === '{entities}'"
        page.wait_for_function(shown, timeout=60_000)
        tools = page.context.new_cdp_session(page)
        tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = busy_s(tools)
        figures: dict[str, float] = page.evaluate(MEASURE, SECONDS)
        return figures | {"main_thread_share": (busy_s(tools) - before) / SECONDS}
    finally:
        player.terminate()
        player.wait()


def why_not() -> str:
    """All that the page lacks here, with what brings it; empty if it can be measured."""
    lacks = {
        "node (apt-get install nodejs)": which("node") is None,
        "the page's packages (make studio)": not (STUDIO / "node_modules").is_dir(),
        "Chromium (apt-get install chromium)": not Path(CHROMIUM).exists(),
    }
    lacking = [what for what, is_missing in lacks.items() if is_missing]
    return f"it needs {' and '.join(lacking)}" if lacking else ""


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    reason = why_not()
    if reason:
        progress.skipped("the page", reason)
        return figures
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=CHROMIUM, args=list(FLAGS), viewport={"width": 1440, "height": 900}
        )
        for entities in ENTITIES:
            found = measure(context.new_page(), entities)
            print(f"{entities} entities: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items()))
            figures |= {f"{name}_{entities}": value for name, value in found.items()}
            progress.note(figures)
        context.close()
    return figures


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
