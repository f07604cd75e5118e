// What the signs on the map mean, and switches for what is drawn.

import { byId, el, remembered, setText } from "../dom.ts";
import { signSvg, TYPES, TYPE_NAMES, typeOf, type Type } from "../glyphs.ts";
import { LAYERS, type LayerName } from "../scene.ts";
import type { Panel, Studio } from "../studio.ts";

const NAMES: Readonly<Record<LayerName, string>> = {
  streets: "Streets",
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

export class Legend implements Panel {
  private readonly open: (open: boolean) => void;
  private aside = false;
  private readonly counts = new Map<Type, { readonly item: HTMLElement; readonly count: HTMLElement }>();

  constructor(
    private readonly studio: Studio,
    private readonly switched: (layer: LayerName, on: boolean) => void,
  ) {
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
    const counted = new Map<Type, number>();
    for (const entity of this.studio.world.entities.values()) {
      const type = typeOf(entity.type);
      counted.set(type, (counted.get(type) ?? 0) + 1);
    }
    for (const [type, { item, count }] of this.counts) {
      item.hidden = !counted.has(type);
      setText(count, (counted.get(type) ?? 0).toLocaleString());
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
    const lines = this.lines(layer);
    return lines.length === 0 ? [label] : [label, el("ul", {}, ...lines)];
  }

  private lines(layer: LayerName): HTMLElement[] {
    switch (layer) {
      case "entities":
        return TYPES.map((type) => {
          const count = el("span", {}, "0");
          const item = el("li", { hidden: true }, signSvg(type), el("span", {}, TYPE_NAMES[type]), count);
          this.counts.set(type, { item, count });
          return item;
        });
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
      case "streets":
      case "names":
      case "interests":
        return [];
    }
  }
}

function line(swatch: string, text: string): HTMLElement {
  return el("li", {}, el("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), el("span", {}, text));
}
