// Tests what gateways get of the state that a control plane holds: a delta where it says everything and costs less, otherwise a snapshot.
// `npm run deltas` compares the two after random edits.

import { expect, test } from "vitest";
import { type Frame, PushedState } from "../../../control-plane/src/push/pushed-state.ts";
import type { StateChanges, StoredState } from "../../../control-plane/src/storage/state.ts";
import { smallestDocument } from "../../limiter/policies.ts";

const nowMs = Date.UTC(2026, 0, 1);
const later = nowMs / 1_000 + 1_000;
const edition = "of tests";
const terms = [{ id: "e", revision: 0, position: 0 }];
const nothing = { policies: [], apps: [], templates: [], networkLists: [], bans: [], callers: [] };
const shop = { name: "shop", realm: { state: "none" } };

async function stateWith(stored: object): Promise<PushedState> {
  const whole = { epoch: "e", revision: 1, proofKey: "", terms, ...nothing, ...stored } as StoredState;
  return PushedState.from(edition, whole, nowMs);
}

/** @param to the revision that the changes lead to */
async function change(state: PushedState, to: number, changes: object): Promise<void> {
  const rest = { epoch: "e", revision: to, proofKey: "", terms, ...nothing, templates: new Map() };
  await state.apply({ ...rest, ...changes } as StateChanges, nowMs);
}

function policies(count: number, description: string): StateChanges["policies"] {
  return Array.from({ length: count }, (_, place) => {
    const name = `p${place}`;
    return {
      app: "shop",
      name,
      document: JSON.stringify({ ...smallestDocument, name, description }),
      wasDeleted: false,
    };
  });
}

const at = (revision: number) => ({ epoch: "e", revision, edition, term: "e" });
const textOf = (frame: Frame | undefined) => (frame === undefined ? undefined : Buffer.concat(frame.pieces).toString());

test("a gateway in the middle of a change of callers gets a snapshot: it may have one that came and went on the way", async () => {
  const state = await stateWith({});
  await change(state, 3, { callers: [{ app: "shop", callers: [] }] });
  expect(textOf(state.deltaFrom(at(1)))).toContain('"revision":3');
  expect(state.deltaFrom(at(2))).toBeUndefined();
  await change(state, 5, { policies: policies(1, "") });
  expect(textOf(state.deltaFrom(at(4)))).toContain('"p0"');
});

test("the bans of an app that was deleted and made again on the way are gone, and those made since are there", async () => {
  const ban = (id: string) => ({ id, app: "shop", cidr: "10.0.0.0/8", untilSeconds: later });
  const state = await stateWith({ apps: [shop], bans: [ban("before")] });
  await change(state, 4, {
    apps: [{ name: "shop", app: shop, wasDeleted: true }],
    bans: [{ id: "since", ban: ban("since") }],
  });
  const delta = textOf(state.deltaFrom(at(1)));
  expect(delta).toContain('{"ban":"before"}');
  expect(delta).toContain('"id":"since"');
  expect(textOf(state.snapshot())).not.toContain('"before"');
});

test("so many changes are remembered, and not more, also if they changed nothing that gateways get", async () => {
  const state = await stateWith({});
  for (let revision = 2; revision <= 60_000; revision++) await change(state, revision, {});
  expect(state.deltaFrom(at(1))).toBeUndefined();
  expect(state.deltaFrom(at(9_000))).toBeUndefined();
  expect(textOf(state.deltaFrom(at(11_000)))).toContain('"revision":60000');
});

test("gateways at many revisions get a snapshot, which they share, when their deltas would be long", async () => {
  const state = await stateWith({});
  const gateways = 50;
  for (let revision = 2; revision <= gateways; revision++)
    await change(state, revision, { policies: policies(1, "x") });
  await change(state, gateways + 1, { policies: policies(2_000, "y".repeat(500)) });
  const deltas = Array.from({ length: gateways }, (_, place) => state.deltaFrom(at(place + 1)));
  const bytes = deltas.reduce((sum, delta) => sum + (delta?.bytes ?? 0), 0);
  expect(deltas.filter((delta) => delta !== undefined).length).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(4 * state.snapshot().bytes);
  // A delta that was made is for all gateways at its revision.
  expect(state.deltaFrom(at(1))).toBe(deltas[0]);
  await change(state, gateways + 2, { policies: policies(1, "z") });
  expect(state.deltaFrom(at(gateways + 1))).toBeDefined();
});

test("policies with time zones, which have to be parsed, are read and changed in turns with everything else", async () => {
  const override = (i: number) => ({ key: [`key ${i}`], limits: smallestDocument.limits });
  const document = JSON.stringify({
    ...smallestDocument,
    schedule: { timezone: "Europe/Berlin", windows: [] },
    overrides: Array.from({ length: 700 }, (_, i) => override(i)),
  });
  const many = Array.from({ length: 200 }, (_, i) => ({ app: "shop", name: `p${i}`, document, wasDeleted: false }));
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const state = await stateWith({ policies: many });
  expect(turns).toBeGreaterThan(10);
  turns = 0;
  await change(state, 2, { policies: many });
  expect(turns).toBeGreaterThan(10);
  isOver = true;
  expect(textOf(state.deltaFrom(at(1)))).toContain('"zones":{"Europe/Berlin":');
});
