// Every entity by its name, type or broker, for the keyboard as much as for the mouse: arrows choose, Enter shows.

import { byId, el, setText } from "../dom.ts";
import { signSvg } from "../glyphs.ts";
import type { Panel, Studio } from "../studio.ts";
import type { Entity } from "../world.ts";

const SHOWN_MAX = 80;

export class FindPanel implements Panel {
  private readonly input = el("input", {
    type: "search",
    id: "find-input",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "find-list",
    "aria-autocomplete": "list",
    autocomplete: "off",
    placeholder: "Name, type or broker",
  });
  private readonly list = el("ul", { class: "rows", id: "find-list", role: "listbox", "aria-label": "Entities" });
  private readonly count = el("p", { class: "hint", role: "status" });
  private found: string[] = [];
  private active = 0;
  private drawn = "";

  constructor(private readonly studio: Studio) {
    this.input.addEventListener("input", () => {
      this.active = 0;
      this.refresh();
    });
    this.input.addEventListener("keydown", (event) => this.key(event));
    byId("panel-find").append(el("label", { class: "field" }, el("span", {}, "Find an entity"), this.input), this.count, this.list);
  }

  focus(): void {
    this.input.focus();
  }

  refresh(): void {
    if (byId("panel-find").hidden) return;
    const wanted = this.input.value.trim().toLowerCase();
    const all = [...this.studio.world.entities.values()].filter((entity) => fits(entity, wanted));
    all.sort((a, b) => a.id.localeCompare(b.id, undefined, { numeric: true }));
    const shown = all.slice(0, SHOWN_MAX);
    this.found = shown.map((entity) => entity.id);
    this.active = Math.max(0, Math.min(this.active, shown.length - 1));
    setText(this.count, all.length > SHOWN_MAX ? `${all.length} fit, the first ${SHOWN_MAX} are shown` : all.length === 1 ? "1 fits" : `${all.length} fit`);
    // Rows are made anew only when they differ, since a row under the pointer must not be swapped away.
    const drawn = shown.map(({ id, type, home }) => `${id} ${type} ${home}`).join("\n");
    if (drawn !== this.drawn) this.list.replaceChildren(...shown.map((entity, index) => this.option(entity, index)));
    this.drawn = drawn;
    this.mark();
  }

  private option(entity: Entity, index: number): HTMLElement {
    const look = this.studio.world.looks.of(entity.type);
    const option = el(
      "li",
      { class: "row", role: "option", id: `found-${index}`, "data-entity": entity.id },
      signSvg(look),
      el("span", { class: "grow" }, entity.id),
      el("span", { class: "side-note" }, `${entity.type ?? look.name}${entity.home === null ? "" : ` · ${entity.home}`}`),
    );
    option.addEventListener("click", () => {
      this.active = index;
      this.choose(entity.id);
    });
    return option;
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      this.active = Math.max(0, Math.min(this.found.length - 1, this.active + step));
      this.mark();
      this.list.children[this.active]?.scrollIntoView({ block: "nearest" });
      return;
    }
    const id = this.found[this.active];
    if (event.key === "Enter" && id !== undefined) this.choose(id);
  }

  private mark(): void {
    [...this.list.children].forEach((option, index) => option.setAttribute("aria-selected", String(index === this.active)));
    if (this.found.length > 0) this.input.setAttribute("aria-activedescendant", `found-${this.active}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  private choose(id: string): void {
    this.mark();
    this.studio.select({ kind: "client", id });
    const at = this.studio.scene.where(id);
    if (at !== null) this.studio.bring([at]);
  }
}

function fits(entity: Entity, wanted: string): boolean {
  return wanted === "" || `${entity.id} ${entity.type ?? ""} ${entity.home ?? ""}`.toLowerCase().includes(wanted);
}
