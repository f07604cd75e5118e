/// <reference types="vitest/config" />
// The bundle is committed, so its files keep their names, and it says of which source it was made: a test compares.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { defineConfig, type Plugin } from "vite";

const here = import.meta.dirname;
const dist = resolve(here, "../src/roamcast/studio/dist");
const sources = ["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"];

function filesIn(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => filesIn(join(path, name)));
}

const sha256 = (data: Buffer | string): string => createHash("sha256").update(data).digest("hex");

function hashes(folder: string, names: readonly string[]): Record<string, string> {
  const files = names.flatMap((name) => filesIn(join(folder, name)));
  const named = files.map((file) => [relative(folder, file).replaceAll("\\", "/"), sha256(readFileSync(file))] as const);
  return Object.fromEntries([...named].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function manifest(): Plugin {
  return {
    name: "manifest",
    apply: "build",
    closeBundle() {
      const built = readdirSync(dist).filter((name) => name !== "manifest.json");
      const text = { source: hashes(here, sources), bundle: hashes(dist, built) };
      writeFileSync(join(dist, "manifest.json"), `${JSON.stringify(text, null, 1)}\n`);
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [manifest()],
  build: {
    outDir: dist,
    emptyOutDir: true,
    sourcemap: false,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    rollupOptions: {
      output: { entryFileNames: "studio.js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
  test: { include: ["test/*.test.ts"] },
});
