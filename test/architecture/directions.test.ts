// Imports run in the directions that rooms.ts allows, no two rooms import each other, and no file imports itself by a detour.

import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize, resolve } from "node:path";
import ts from "typescript";
import { expect, it } from "vitest";
import { rooms } from "./rooms.ts";

const project = resolve(import.meta.dirname, "../..");
const parts = ["limiter", "gateway", "control-plane", "console", "rls", "launch"];

/** By file: the files that it imports. */
type Imports = ReadonlyMap<string, readonly string[]>;

const imports: Imports = new Map(
  parts
    .flatMap((part) =>
      globSync(`${part}/**/*.{ts,tsx,mjs}`, {
        cwd: project,
        exclude: (name) => /node_modules|^dist$|\.d\.ts$/.test(name),
      }),
    )
    .map((file) => [file, importsOf(file, readFileSync(join(project, file), "utf8"))]),
);

function importsOf(file: string, text: string): string[] {
  return ts
    .preProcessFile(text, true, true)
    .importedFiles.map(({ fileName }) => fileName)
    .filter((name) => /\.(ts|tsx|mjs)$/.test(name))
    .flatMap((name) => {
      if (name.startsWith(".")) return [normalize(join(dirname(file), name))];
      return name.startsWith("@sluice/limiter/") ? [name.replace("@sluice/limiter/", "limiter/src/")] : [];
    });
}

/** The room of a file: the file itself where the list has it, else the nearest folder that the list has. */
function roomOf(file: string): string | undefined {
  for (let room = file; room !== "."; room = dirname(room)) {
    if (Object.hasOwn(rooms, room)) return room;
  }
  return undefined;
}

/** Returns the imports that rooms.ts does not allow. */
function mistakesIn(all: Imports): string[] {
  return [...all].flatMap(([file, imported]) => {
    const room = roomOf(file);
    if (room === undefined) return [`${file} is in no room`];
    return imported.filter((other) => !mayImport(room, roomOf(other))).map((other) => `${file} imports ${other}`);
  });
}

function mayImport(room: string, other: string | undefined): boolean {
  if (other === undefined || room === other) return other !== undefined;
  const [part] = room.split("/") as [string];
  const [otherPart] = other.split("/") as [string];
  const allowed = rooms[room] as readonly string[];
  if (otherPart === "limiter" && part !== "limiter")
    return part === "gateway" || part === "control-plane" || part === "console" || allowed.includes(other);
  // The clients are what others use, and are used by their names alone.
  if (otherPart === "clients" && part !== "clients") return allowed.includes(other);
  return part === otherPart && (allowed.includes("*") || allowed.includes(other));
}

/** Returns a way from a node back to itself; undefined: there is none. */
function circleIn(edges: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  const follow = (node: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node];
    if (done.has(node)) return undefined;
    for (const next of edges.get(node) ?? []) {
      const circle = follow(next, [...path, node]);
      if (circle !== undefined) return circle;
    }
    done.add(node);
    return undefined;
  };
  for (const node of edges.keys()) {
    const circle = follow(node, []);
    if (circle !== undefined) return circle;
  }
  return undefined;
}

it("every import runs in a direction that rooms.ts allows", () => {
  expect(imports.size).toBeGreaterThan(250);
  expect(mistakesIn(imports)).toEqual([]);
});

it("an import that is planted against the direction is found", () => {
  const store = "gateway/src/stores/node/node-store.ts";
  for (const planted of [
    "gateway/src/access.ts",
    "control-plane/src/app.ts",
    "launch/start.ts",
    "gateway/src/elsewhere/file.ts",
  ]) {
    const withPlanted = new Map(imports).set(store, [...(imports.get(store) ?? []), planted]);
    expect(mistakesIn(withPlanted)).toEqual([`${store} imports ${planted}`]);
  }
});

it("the list itself has no circle, and every room on it exists and is used as it says", () => {
  const edges = Object.entries(rooms).map(([room, allowed]) => [room, allowed.filter((one) => one !== "*")] as const);
  expect(circleIn(new Map(edges))).toBeUndefined();
  for (const [room, allowed] of edges) {
    expect([room, existsSync(join(project, room))]).toEqual([room, true]);
    const used = new Set(
      [...imports].filter(([file]) => roomOf(file) === room).flatMap(([, files]) => files.map(roomOf)),
    );
    expect([room, allowed.filter((one) => !used.has(one))]).toEqual([room, []]);
  }
});

it("no file imports itself by a detour", () => {
  expect(circleIn(imports)).toBeUndefined();
  const circle = new Map([
    ["a", ["b"]],
    ["b", ["c"]],
    ["c", ["b"]],
  ]);
  expect(circleIn(circle)).toEqual(["b", "c", "b"]);
});
