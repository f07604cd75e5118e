// How long something took, for the browser's own tools and for the bench, which watch; nothing is kept.

export function measured(name: "studio.tick" | "studio.draw", work: () => void): void {
  const start = performance.now();
  work();
  performance.measure(name, { start, end: performance.now() });
  performance.clearMeasures(name);
}
