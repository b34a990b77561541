// What a shadow policy would have refused is in the error log at nginx's default level: with the key but without credentials,
// in one line whatever the client sends, and sparingly.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until } from "../fixtures/until.ts";

const watched = (name: string, key: readonly string[]) => ({
  name,
  mode: "shadow",
  match: { paths: [`/${name}`] },
  key,
  limits: [{ algorithm: "fixed-window", quota: 1, window: "366d" }],
});

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      watched("keyed", ["ip", "header:x-user"]),
      watched("keyless", []),
      watched("hostile", ["query:q", "header:x-user"]),
      watched("secret", ["header:authorization", "cookie:sid", "query:api_key", "header:x-user"]),
      watched("flood", ["ip"]),
      { ...watched("other", ["ip"]), scope: "node" },
      ...Array.from({ length: 60 }, (_, i) => ({ ...watched("many", ["ip"]), name: `many-${i}` })),
    ],
    env: { SLUICE_GATEWAY_TOKEN: "a-token-of-all-gateways" },
    // This is nginx's level where an operator sets none.
    edit: (config) => config.replace(/(error_log \S+) notice;/, "$1;"),
  });
});
afterAll(() => gateway?.stop());

const lines = (policy: string, of = gateway) =>
  of.log
    .split("\n")
    .filter((line) => line.includes(`shadow policy would have refused: default/${policy}`))
    .map((line) => line.replace(/, client: .*/, ""));

async function refused(policy: string, headers: Record<string, string> = {}, query = ""): Promise<string> {
  for (let i = 0; i < 2; i++) expect((await ask(`${gateway.url}/${policy}${query}`, { headers })).status).toBe(404);
  await until(`a line of ${policy}`, () => lines(policy).length > 0);
  return lines(policy)[0] as string;
}

it("names the key part by part, at the level error", async () => {
  const line = await refused("keyed", { "x-user": "ann" });
  expect(line).toMatch(/\[error\].*refused: default\/keyed, key: ip "127\.0\.0\.1", header:x-user "ann"$/);
  expect(await refused("keyless")).toMatch(/refused: default\/keyless, key: none$/);
});

it("logs what a client sends in one line, escaped and cut", async () => {
  const query = `?q=${encodeURIComponent('a"\r\nsluice: forged\\\x7f[31mü')}`;
  const line = await refused("hostile", { "x-user": "x".repeat(5000) }, query);
  expect(line).toContain(
    `query:q "a\\x22\\x0d\\x0asluice: forged\\x5c\\x7f[31m\\xc3\\xbc", header:x-user "${"x".repeat(100)}..."`,
  );
  expect(gateway.log).not.toMatch(/^sluice: forged/m);
});

it("logs credentials only as digests that distinguish them", async () => {
  const headers = { authorization: "Bearer not-to-be-read", cookie: "sid=nor-this-one", "x-user": "ann" };
  const line = await refused("secret", headers, "?api_key=and-this-neither");
  expect(line).toMatch(
    /key: header:authorization hmac:[0-9a-f]{8}, cookie:sid hmac:[0-9a-f]{8}, query:api_key hmac:[0-9a-f]{8}, header:x-user "ann"$/,
  );
  const said = lines("secret").join();
  expect(said).not.toMatch(/not-to-be-read|nor-this-one|and-this-neither/);
});

it("logs nothing of a credential if the gateway has no token, with which it makes digests", async () => {
  const alone = await LoneGateway.start({ policies: [watched("pin", ["header:x-pin"])] });
  onTestFinished(() => alone.stop());
  for (let i = 0; i < 2; i++) await ask(`${alone.url}/pin`, { headers: { "x-pin": "0417" } });
  await until("a line", () => lines("pin", alone).length > 0);
  expect(lines("pin", alone)[0]).toMatch(/key: header:x-pin hidden$/);
});

it("logs one line a second for a policy, with the number of refusals since the last, and none of another's", async () => {
  for (let i = 0; i < 21; i++) await ask(`${gateway.url}/flood`);
  await refused("other");
  const before = lines("flood").length;
  expect(before).toBeLessThan(20);
  // The next line comes when a second has passed.
  await sleep(1100);
  await ask(`${gateway.url}/flood`);
  await until("there is a line more", () => lines("flood").length > before);
  const total = lines("flood")
    .map((line) => 1 + Number(/\(and (\d+) times since the last line\)/.exec(line)?.[1] ?? 0))
    .reduce((sum, count) => sum + count, 0);
  expect(total).toBe(21);
});

it("logs 20 lines a second for all policies together, says how many found none, and these come next", async () => {
  // Lines of other tests count, too.
  await sleep(1100);
  const policies = () => lines("many-").map((line) => /many-\d+/.exec(line)?.[0]);
  for (let i = 0; i < 5; i++) await ask(`${gateway.url}/many`);
  await until("there are lines", () => policies().length >= 20);
  expect(policies()).toHaveLength(20);
  await sleep(1100);
  for (let i = 0; i < 5; i++) await ask(`${gateway.url}/many`);
  await until("there are more lines", () => policies().length >= 40);
  expect(new Set(policies()).size).toBe(40);
  expect(lines("many-")[20]).toMatch(
    /\(and 4 times since the last line\) \(in the second before, 40 more policies had no line\)$/,
  );
});

it("an unknown path of the private listener puts no line of its own into the log", async () => {
  const { status } = await ask(
    `${gateway.privateUrl}/x%0a2026/11/27%2000:00:00%20[emerg]%201%231:%20written-by-a-client`,
  );
  expect(status).toBe(404);
  expect(gateway.log).not.toContain("written-by-a-client");
});
