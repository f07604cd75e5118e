// Making and finding elements, as little as a page without a framework needs.

type Child = Node | string | null;
type Attributes = Readonly<Record<string, string | number | boolean | null>>;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

export function button(label: string, attributes: Attributes, onClick: () => void, ...children: readonly Child[]): HTMLButtonElement {
  const made = el("button", { type: "button", ...attributes }, ...(children.length > 0 ? children : [label]));
  if (children.length > 0) made.setAttribute("aria-label", label);
  made.addEventListener("click", onClick);
  return made;
}

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found as T;
}

/** Replaces the text only if it differs, so that nothing is laid out or read out again for nothing. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export function clock(us: number): string {
  return us === 0 ? "" : TIME.format(us / 1_000);
}

export function rate(perS: number): string {
  return perS >= 100 ? Math.round(perS).toLocaleString() : perS.toFixed(perS >= 10 || perS === 0 ? 0 : 1);
}

/** Kept in this browser if it allows that. */
export const remembered = {
  get(name: string): string | null {
    try {
      return localStorage.getItem(`roamcast.${name}`);
    } catch {
      return null;
    }
  },
  set(name: string, value: string): void {
    try {
      localStorage.setItem(`roamcast.${name}`, value);
    } catch {
      // A browser that keeps nothing still shows everything.
    }
  },
};
