// What the signs on the map mean, and switches for what is drawn.

import { latLngBounds } from "leaflet";
import { button, byId, el, remembered, setText } from "../dom.ts";
import { signSvg } from "../glyphs.ts";
import type { Look } from "../looks.ts";
import { latLng } from "../projection.ts";
import { LAYERS, type LayerName } from "../scene.ts";
import type { Panel, Studio } from "../studio.ts";
import { extentOf, isInside } from "../zones.ts";

const NAMES: Readonly<Record<LayerName, string>> = {
  map: "Map",
  zones: "Zones",
  entities: "Entities",
  names: "Names that fit",
  regions: "Proximities and scopes",
  interests: "Near and interest of all",
  fences: "Fences and who passes them",
  brokers: "Brokers and links",
  deliveries: "Deliveries",
  handovers: "Handovers",
};

/** What would hide all else is off until the viewer wants it. */
const OFF_AT_FIRST: ReadonlySet<LayerName> = new Set(["interests"]);
const ROOM_PX = 900;
const TYPES_MAX = 14;
const ZONES_MAX = 30;
/** Who is in which zone is counted once a second. */
const COUNT_MS = 1_000;

interface Line {
  readonly item: HTMLElement;
  readonly count: HTMLElement;
}

export class Legend implements Panel {
  private readonly open: (open: boolean) => void;
  private aside = false;
  private readonly types = el("ul", { id: "legend-types" });
  private readonly zones = el("ul", { id: "legend-zones" });
  private readonly typeLines = new Map<string, Line>();
  private readonly zoneLines = new Map<string, Line>();
  private readonly more = el("li", { hidden: true });
  private zonesItem: HTMLElement | null = null;
  private counted = -COUNT_MS;

  constructor(
    private readonly studio: Studio,
    private readonly switched: (layer: LayerName, on: boolean) => void,
  ) {
    this.types.append(this.more);
    const content = el("div", { id: "legend-content" }, ...LAYERS.flatMap((layer) => this.layer(layer)));
    const fold = el("button", { type: "button", "aria-controls": "legend-content" }, "Legend");
    this.open = (open) => {
      content.hidden = !open;
      fold.setAttribute("aria-expanded", String(open));
    };
    this.open(matchMedia("(min-width: 761px)").matches);
    fold.addEventListener("click", () => {
      this.aside = false;
      this.open(content.hidden);
    });
    byId("legend").append(fold, content);
  }

  /** Makes room on a map that details have made narrow, and comes back when they are closed. */
  giveWay(details: boolean): void {
    if (details === this.aside || matchMedia("(max-width: 760px)").matches) return;
    if (details && this.studio.map.getContainer().clientWidth > ROOM_PX) return;
    this.aside = details;
    this.open(!details);
  }

  refresh(): void {
    this.showTypes();
    const now = performance.now();
    if (this.zonesItem !== null) this.zonesItem.hidden = this.studio.world.zones.size === 0;
    if (now - this.counted < COUNT_MS) return;
    this.counted = now;
    this.showZones();
  }

  /** Those that there are, the most frequent first when the page first sees them; their places stay. */
  private showTypes(): void {
    const counts = new Map<string, { readonly look: Look; count: number }>();
    for (const entity of this.studio.world.entities.values()) {
      const look = this.studio.world.looks.of(entity.type);
      const key = `${look.name} ${look.key}`;
      const known = counts.get(key);
      if (known === undefined) counts.set(key, { look, count: 1 });
      else known.count += 1;
    }
    const fresh = [...counts].filter(([key]) => !this.typeLines.has(key)).sort(([, a], [, b]) => b.count - a.count);
    for (const [key, { look }] of fresh) {
      const count = el("span", {}, "0");
      const item = el("li", { "data-type": look.name }, signSvg(look), el("span", {}, look.name), count);
      this.typeLines.set(key, { item, count });
      this.types.insertBefore(item, this.more);
    }
    let shown = 0;
    for (const [key, { item, count }] of this.typeLines) {
      const here = counts.get(key);
      if (here === undefined) {
        item.remove();
        this.typeLines.delete(key);
        continue;
      }
      shown += 1;
      item.hidden = shown > TYPES_MAX;
      setText(count, here.count.toLocaleString());
    }
    this.more.hidden = shown <= TYPES_MAX;
    setText(this.more, `and ${shown - TYPES_MAX} more types`);
  }

  private showZones(): void {
    const { zones, entities, space } = this.studio.world;
    for (const [name, { shape, colour }] of [...zones].slice(0, ZONES_MAX)) {
      let line = this.zoneLines.get(name);
      if (line === undefined) {
        const swatch = el("span", { class: "swatch circle of-zone", "aria-hidden": "true" });
        if (colour !== null) swatch.style.setProperty("--swatch", colour);
        const count = el("span", { title: "So many are in it" }, "0");
        const go = button(name, { class: "plain grow", title: "Show it on the map" }, () =>
          this.studio.map.fitBounds(latLngBounds(extentOf(shape, space).map(latLng)), { maxZoom: 18, padding: [40, 40], animate: false }),
        );
        line = { item: el("li", { "data-zone": name }, swatch, go, count), count };
        this.zoneLines.set(name, line);
        this.zones.append(line.item);
      }
      let inside = 0;
      for (const { at } of entities.values()) if (isInside(shape, at, space)) inside += 1;
      setText(line.count, inside.toLocaleString());
    }
  }

  private layer(layer: LayerName): HTMLElement[] {
    const box = el("input", { type: "checkbox", "data-layer": layer });
    box.checked = (remembered.get(`layer.${layer}`) ?? (OFF_AT_FIRST.has(layer) ? "off" : "on")) !== "off";
    this.switched(layer, box.checked);
    box.addEventListener("change", () => {
      remembered.set(`layer.${layer}`, box.checked ? "on" : "off");
      this.switched(layer, box.checked);
    });
    const label = el("label", {}, box, el("span", {}, NAMES[layer]));
    if (layer === "interests") label.title = "Else only of the one that is chosen or pointed at";
    if (layer === "zones") return [(this.zonesItem = el("div", { hidden: true }, label, this.zones))];
    if (layer === "entities") return [label, this.types];
    const lines = linesOf(layer);
    return lines.length === 0 ? [label] : [label, el("ul", {}, ...lines)];
  }
}

function linesOf(layer: LayerName): HTMLElement[] {
  switch (layer) {
    case "regions":
      return [
        line("circle of-audience", "Audience"),
        line("circle of-relevance", "Relevance"),
        line("circle dashed of-near", "Near a subscriber"),
        line("circle dashed of-interest", "Interest"),
      ];
    case "fences":
      return [line("circle of-fence", "Fence")];
    case "brokers":
      return [line("stroke of-link", "Link"), line("stroke dashed of-down", "Link down")];
    case "deliveries":
      return [line("stroke of-delivery", "Message delivered")];
    case "handovers":
      return [line("stroke dashed of-handover", "Client changes broker")];
    default:
      return [];
  }
}

function line(swatch: string, text: string): HTMLElement {
  return el("li", {}, el("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), el("span", {}, text));
}
