// What panels may use of the page.

import type L from "leaflet";
import type { Feeds } from "./feeds.ts";
import type { Place } from "./feed.ts";
import type { Hit, Scene } from "./scene.ts";
import type { World } from "./world.ts";

export type Selection =
  | { readonly kind: "client"; readonly id: string }
  | { readonly kind: "event"; readonly id: string }
  | { readonly kind: "broker"; readonly id: string };

export interface Studio {
  readonly world: World;
  readonly feeds: Feeds;
  readonly scene: Scene;
  readonly map: L.Map;
  select(selection: Selection | null): void;
  selection(): Selection | null;
  /** The next click on the map is a place, not a choice; null is told if the viewer gives up. */
  aim(then: (place: Place | null, hit: Hit | null) => void): void;
  bring(places: readonly L.LatLng[]): void;
  say(text: string): void;
}

/** Something that shows part of the world and is told, a few times a second, that it may have changed. */
export interface Panel {
  refresh(): void;
}
