// Tests bans at a real gateway: of a network and of key values, by app, until they end.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { days } from "../../limiter/src/document/schedule.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { untilPasses } from "../fixtures/until.ts";

const limits = [{ algorithm: "fixed-window", quota: 1000, window: "366d" }];
const at = (name: string) => ({ name, match: { paths: [`/${name}`] }, key: ["header:x-user"], limits });
const soon = Math.floor(Date.now() / 1000) + 3;
const later = soon + 3600;
// This day is days away from today, so that the test does not run near the schedule's border.
const otherDay = days[(new Date().getUTCDay() + 2) % 7] as string;
const notNow = { timezone: "UTC", windows: [{ days: [otherDay], from: "00:00", to: "24:00" }] };
const debugSecret = "who may see why, may see it";

// Requests come from these addresses of this machine.
const innocent = "127.0.0.1";
const bannedByDefault = "127.0.0.20";
const bannedForNow = "127.0.0.21";
const bannedByShop = "127.0.0.30";

/** One policy for each way in which a policy may let a request pass, and one that is enforced. */
const lenient = (prefix: string) => [
  { ...at(`${prefix}-shadow`), mode: "shadow" },
  { ...at(`${prefix}-off`), mode: "off" },
  { ...at(`${prefix}-closed`), schedule: notNow },
  { ...at(`${prefix}-exempt`), exempt: { cidrs: ["127.0.0.0/8"] } },
  { ...at(`${prefix}-keyless`), key: ["header:x-nobody-sends-this"] },
  at(`${prefix}-enforced`),
];
const lenientPaths = (prefix: string) => lenient(prefix).map(({ name }) => `/${name}`);

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      at("keyed"),
      { ...at("keyed-shadow"), mode: "shadow" },
      at("open"),
      { ...at("by-address"), key: ["ip"], limits: [{ ...limits[0], quota: 1 }] },
      ...lenient("default"),
    ],
    otherPolicies: { shop: lenient("shop"), bank: lenient("bank") },
    bans: [
      { id: "1", app: "default", policy: "keyed", keyPattern: ["bad-*"], untilSeconds: later },
      { id: "2", app: "shop", cidr: bannedByShop, untilSeconds: later },
      { id: "3", app: "default", cidr: bannedForNow, untilSeconds: soon },
      { id: "4", app: "default", policy: "open", keyPattern: ["bad-*"], untilSeconds: 1 },
      // This ban was made when the policy had another key, or by somebody who does not know that the key is an address.
      { id: "5", app: "default", policy: "by-address", key: ["bad"], untilSeconds: later },
      { id: "8", app: "default", policy: "open", key: ["*"], untilSeconds: later },
      { id: "9", app: "default", policy: "open", key: ["worse-*"], untilSeconds: later },
      { id: "6", app: "default", cidr: bannedByDefault, untilSeconds: later },
      { id: "7", app: "default", policy: "keyed-shadow", keyPattern: ["bad-*"], untilSeconds: later },
    ],
    env: { SLUICE_DEBUG_SECRET: debugSecret },
  });
});
afterAll(() => gateway?.stop());

const status = async (path: string, user: string, from = innocent) =>
  (await ask(`${gateway.url}${path}`, { headers: { "x-user": user }, from })).status;

/** @returns the status that each of these paths is answered with */
const statuses = async (paths: readonly string[], from: string) =>
  Object.fromEntries(await Promise.all(paths.map(async (path) => [path, await status(path, "a", from)])));

const all = (paths: readonly string[], answer: number) => Object.fromEntries(paths.map((path) => [path, answer]));

// The upstream here answers 404 to a path that it does not know.
describe("a banned key", () => {
  it("is refused by the policy that the ban names, and by no other", async () => {
    expect(await status("/keyed", "bad-one")).toBe(403);
    expect(await status("/keyed", "good-one")).toBe(404);
    expect(await status("/open", "bad-one")).toBe(404);
  });

  it("may end in *, and bans nobody else then", async () => {
    for (const banned of ["*", "worse-*"]) expect(await status("/open", banned)).toBe(403);
    for (const other of ["worse-one", "anyone"]) expect(await status("/open", other)).toBe(404);
  });

  it("passes a policy in shadow mode", async () => {
    expect(await status("/keyed-shadow", "bad-one")).toBe(404);
  });

  it("that the policy's key can never equal bans nobody, and the policy still limits", async () => {
    expect(await status("/by-address", "a")).toBe(404);
    expect(await status("/by-address", "a")).toBe(429);
  });
});

describe("an address banned by app default", () => {
  const paths = ["/", "/no/policy/here", ...["default", "shop", "bank"].flatMap(lenientPaths)];

  it("is refused on every route, whatever the policies there say, and nobody else is", async () => {
    expect(await statuses(paths, bannedByDefault)).toEqual(all(paths, 403));
    expect(await statuses(paths, innocent)).toEqual(all(paths, 404));
  });

  it("gets a problem document titled Banned, and is counted", async () => {
    const { body, headers } = await ask(`${gateway.url}/`, { from: bannedByDefault });
    expect(JSON.parse(body)).toMatchObject({ status: 403, title: "Banned" });
    expect(headers["x-sluice-debug"]).toBeUndefined();
    const reported = { "x-sluice-debug": debugSecret };
    const debugged = await ask(`${gateway.url}/`, { from: bannedByDefault, headers: reported });
    expect(debugged.headers["x-sluice-debug"]).toBe("refused by a ban of app default");
    await untilPasses(async () => expect(await gateway.metric("sluice_banned_requests_total")).toBeGreaterThan(0));
  });

  it("is let in again when the ban ends, without a new snapshot", async () => {
    const before = await status("/", "a", bannedForNow);
    if (Date.now() / 1000 < soon) expect(before).toBe(403);
    await untilPasses(async () => expect(await status("/", "a", bannedForNow)).toBe(404));
    expect(Date.now() / 1000).toBeGreaterThanOrEqual(soon);
  });
});

describe("an address banned by another app", () => {
  it("is refused wherever a policy of that app matches, in any mode, and nowhere else", async () => {
    const here = lenientPaths("shop");
    const elsewhere = ["/", ...lenientPaths("default"), ...lenientPaths("bank")];
    expect(await statuses(here, bannedByShop)).toEqual(all(here, 403));
    expect(await statuses(elsewhere, bannedByShop)).toEqual(all(elsewhere, 404));
    expect(await statuses(here, innocent)).toEqual(all(here, 404));
  });
});
