// The panels at the side, one at a time; on a phone the open one folds away when its tab is chosen again.

import { byId } from "./dom.ts";

export const TABS = ["live", "charts", "clients", "find", "try", "talk"] as const;
export type Tab = (typeof TABS)[number];

const isNarrow = (): boolean => matchMedia("(max-width: 760px)").matches;

export class Tabs {
  private readonly side = document.querySelector(".side") as HTMLElement;
  private readonly body = document.querySelector(".body") as HTMLElement;
  private readonly listeners: ((tab: Tab) => void)[] = [];
  current: Tab = "live";

  constructor(found: () => void) {
    // On a phone the map comes first.
    this.side.classList.toggle("folded", isNarrow());
    byId("handle").addEventListener("click", () => {
      const tall = this.body.classList.toggle("tall");
      byId("handle").setAttribute("aria-pressed", String(tall));
    });
    for (const [index, tab] of TABS.entries()) {
      const handle = byId(`tab-${tab}`);
      handle.addEventListener("click", () => {
        const narrow = isNarrow();
        const folded = narrow && tab === this.current && !this.side.classList.contains("folded");
        this.open(tab);
        this.side.classList.toggle("folded", folded);
        if (tab === "find" && !narrow) found();
      });
      handle.addEventListener("keydown", ({ key }) => {
        const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
        const next = TABS[(index + step + TABS.length) % TABS.length];
        if (step === 0 || next === undefined) return;
        this.open(next);
        byId(`tab-${next}`).focus();
      });
    }
    document.querySelector(".skip")?.addEventListener("click", (event) => {
      event.preventDefault();
      this.open("find");
      found();
    });
  }

  onOpen(listener: (tab: Tab) => void): void {
    this.listeners.push(listener);
  }

  open(wanted: Tab): void {
    this.current = wanted;
    // Tables are wide.
    this.body.dataset["tab"] = wanted;
    this.side.classList.remove("folded");
    for (const tab of TABS) {
      byId(`tab-${tab}`).setAttribute("aria-selected", String(tab === wanted));
      byId(`tab-${tab}`).tabIndex = tab === wanted ? 0 : -1;
      byId(`panel-${tab}`).hidden = tab !== wanted;
    }
    for (const listener of this.listeners) listener(wanted);
    if (wanted === "find") byId<HTMLInputElement>("find-input").focus({ preventScroll: true });
  }
}
