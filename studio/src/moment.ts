// Positions as of an event: everybody is shown where it was when the event was published, until the viewer goes back to
// now.

import { answered, askAll } from "./ask.ts";
import { button, byId, clock, el, setText } from "./dom.ts";
import type { EntityNews } from "./feed.ts";
import type { Studio } from "./studio.ts";
import type { Entity } from "./world.ts";

interface PositionsAnswer {
  readonly clients: readonly EntityNews[];
}

export class MomentBar {
  private readonly bar = byId("moment");
  private readonly words = el("span");
  private readonly turn = button("Show now", { id: "moment-turn", class: "plain" }, () => this.switch(!this.past));
  private entities: readonly Entity[] = [];
  private at_us = 0;
  private past = false;
  private asked = 0;

  constructor(private readonly studio: Studio) {
    this.bar.replaceChildren(this.words, " ", this.turn);
  }

  async show(at_us: number): Promise<void> {
    const asked = (this.asked += 1);
    const answers = answered(await askAll<PositionsAnswer>(this.studio.feeds, `/studio/positions?at_us=${at_us}`));
    if (asked !== this.asked) return;
    this.at_us = at_us;
    this.entities = joinPositions(answers);
    this.bar.hidden = false;
    this.turn.hidden = answers.size === 0;
    if (answers.size > 0) this.switch(true);
    else setText(this.words, "Positions are those of now: no broker knows those of then any more.");
  }

  hide(): void {
    this.asked += 1;
    this.bar.hidden = true;
    this.past = false;
    this.studio.scene.showMoment(null);
  }

  private switch(past: boolean): void {
    this.past = past;
    this.studio.scene.showMoment(past ? this.entities : null);
    setText(this.words, past ? `Positions as of the event, ${clock(this.at_us)}` : "Positions of now");
    setText(this.turn, past ? "Show now" : `Show ${clock(this.at_us)}`);
  }
}

/** A client may be known to several brokers; the one at which it was connected is believed. */
export function joinPositions(answers: ReadonlyMap<string, PositionsAnswer>): readonly Entity[] {
  const found = new Map<string, Entity & { readonly here: boolean }>();
  for (const [broker, { clients }] of answers) {
    for (const news of clients) {
      if (news.here || found.get(news.id)?.here !== true) found.set(news.id, { ...news, home: news.here ? broker : null, stale: false });
    }
  }
  return [...found.values()];
}
