// An error says what was expected. Whoever follows it must not be refused again at the same field.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { policyShape } from "../../../limiter/src/document/policy-shape.ts";
import { type Problem, validatePolicy } from "../../../limiter/src/document/validate.ts";
import { documents, likelyDocuments } from "../../fixtures/documents/policy-documents.ts";
import { smallestLimit } from "../policies.ts";

type Json = Record<string, unknown>;

/** Stands for a field that is left out. */
const nothing = Symbol("nothing");

/** @returns the values that the text offers, as far as it offers particular ones */
function offers({ expected }: Problem): unknown[] {
  const offered: unknown[] = [];
  if (/^nothing\b/.test(expected)) offered.push(nothing);
  for (const [, min, max] of expected.matchAll(/an integer from (-?\d+)(?: \(\w+\))? to (-?\d+)/g)) {
    offered.push(Number(min), Number(max));
  }
  for (const [, most] of expected.matchAll(/^at most (\d+)/g)) offered.push(Number(most));
  for (const [, min, max] of expected.matchAll(/a duration from (\w+) to (\w+)/g)) offered.push(min, max);
  for (const [, list] of expected.matchAll(/one of ((?:[a-z-]+, )+[a-z-]+)(?!.*known here)/g)) {
    if (!/^ms, s, m, h, d\b/.test(list as string)) offered.push(...(list as string).split(", "));
  }
  for (const [, only] of expected.matchAll(/^"([a-z-]+)", as of/g)) offered.push(only);
  if (/^a duration[:,]/.test(expected)) offered.push("1s");
  for (const [, text] of expected.matchAll(/a month and a day, like "([\d-]+)"/g)) offered.push(text);
  for (const [, list] of expected.matchAll(/^one of the plans: ([^…]*)$/g))
    offered.push(...(list as string).split(", "));
  return offered;
}

const steps = (path: string) =>
  path.split(/\.|(?=\[)/).map((step) => (step.startsWith("[") ? Number(step.slice(1, -1)) : step));

/** @returns a copy that has the value at the path */
function withValue(document: unknown, path: string, value: unknown): unknown {
  const copy = structuredClone(document) as Json;
  const [last, ...before] = steps(path).reverse() as [string, ...string[]];
  let inner = copy;
  for (const step of before.reverse()) inner = inner[step] as Json;
  if (value === nothing) delete inner[last];
  else inner[last] = value;
  return copy;
}

const problemsAt = (document: unknown, path: string) =>
  validatePolicy(document).problems.filter((problem) => problem.path === path);

/** Names of fields that contain what separates steps of a path are no steps of it. */
const isPlain = (path: string) =>
  /^[\w-]+(\[\d+\])*(\.[a-zA-Z][\w-]*(\[\d+\])*)*$/.test(path) && !/__|prototype|constructor/i.test(path);

function expectOffersToBeAccepted(document: unknown): number {
  let tried = 0;
  for (const problem of validatePolicy(document).problems) {
    if (!isPlain(problem.path)) continue;
    // Which of these may be there depends on the others that are.
    if (problem.path === "onLimit") continue;
    for (const offered of offers(problem)) {
      const followed = withValue(document, problem.path, offered);
      expect(
        problemsAt(followed, problem.path),
        JSON.stringify({ problem, offered: String(offered), document }),
      ).toEqual([]);
      tried += 1;
    }
    for (const [, list] of problem.expected.matchAll(/known here: (.*)$/g)) {
      const parent = problem.path.replace(/\.?[^.]*$/, "");
      for (const name of (list as string).split(", ")) {
        const path = parent === "" ? name : `${parent}.${name}`;
        const found = problemsAt(withValue(document, path, {}), path);
        expect(
          found.filter(({ expected }) => /^nothing: (?!.*plans)/.test(expected)),
          path,
        ).toEqual([]);
        tried += 1;
      }
    }
  }
  return tried;
}

const policy = (limit: Json, others: Json = {}) => ({ name: "x", limits: [limit], ...others });

describe("what an error offers is accepted", () => {
  it.each(["token-bucket", "leaky-bucket", "sliding-window", "sliding-log", "concurrency", "fixed-window"])(
    "for a wrong window of a %s",
    (algorithm) => {
      for (const window of ["5 minutes", 60, "0s", "lifetime", "month", undefined]) {
        for (const scope of ["node", "cluster"]) {
          expectOffersToBeAccepted(policy({ algorithm, quota: 1, window }, { scope }));
        }
      }
    },
  );

  it("for a wrong window of a token-bucket, which has durations alone", () => {
    const [problem] = validatePolicy(policy({ ...smallestLimit, window: "5 minutes" })).problems;
    expect(problem?.expected).toBe('a duration from 1ms to 366d: an integer and one of ms, s, m, h, d, like "30s"');
  });

  it("for a field that the algorithm does not have, whatever its value", () => {
    for (const [field, wrong] of [
      ["burst", -1],
      ["ttl", "x"],
      ["maxDelay", 5],
      ["timezone", "a zone"],
      ["anchor", 99],
    ] as const) {
      expect(
        validatePolicy(policy({ algorithm: "sliding-log", quota: 1, window: "1s", [field]: wrong })).problems,
      ).toEqual([
        expect.objectContaining({ path: `limits[0].${field}`, expected: expect.stringMatching(/^nothing: /) }),
      ]);
    }
  });

  it("for any document, right and wrong at every place", () => {
    let tried = 0;
    fc.assert(
      fc.property(documents(policyShape), (document) => {
        tried += expectOffersToBeAccepted(document);
      }),
      { numRuns: 150 },
    );
    expect(tried).toBeGreaterThan(1_000);
  });

  it("for any document that is wrong at one place", () => {
    let tried = 0;
    const wrong = fc.constantFrom<unknown>(
      -1,
      0.5,
      2 ** 40,
      "other",
      "999999d",
      "1 hour",
      "month",
      "lifetime",
      [],
      {},
      null,
    );
    fc.assert(
      fc.property(likelyDocuments, wrong, fc.nat(), (document, value, place) => {
        const paths = pathsIn(document);
        tried += expectOffersToBeAccepted(withValue(document, paths[place % paths.length] as string, value));
      }),
      { numRuns: 700 },
    );
    expect(tried).toBeGreaterThan(500);
  });
});

/** @returns the path of each value */
function pathsIn(value: unknown, path = ""): string[] {
  if (typeof value !== "object" || value === null) return [path];
  return Object.entries(value).flatMap(([name, inner]) =>
    pathsIn(inner, Array.isArray(value) ? `${path}[${name}]` : path === "" ? name : `${path}.${name}`),
  );
}
