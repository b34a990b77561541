// A header that a policy sets on requests for the service does not change what other policies count by, and no client writes it.

import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

const secret = "a secret of the operator";
const quota = (units: number) => [{ algorithm: "fixed-window", quota: units, window: "366d" }];

it("an app's mark changes no key in another app's policy: it charges nobody else and hides nobody", async () => {
  const gateway = await LoneGateway.start({
    policies: [{ name: "all", key: ["header:x-user"], limits: quota(3) }],
    otherPolicies: {
      shop: [
        {
          name: "first",
          priority: 1_000_000,
          match: { paths: ["/shop/*"] },
          limits: quota(1),
          onLimit: { action: "tag", header: "x-user: victim" },
        },
      ],
    },
  });
  onTestFinished(() => gateway.stop());
  const ask = async (path: string, user: string) =>
    (await fetch(`${gateway.url}${path}`, { headers: { "x-user": user } })).status === 429;
  const ofShop: boolean[] = [];
  for (let i = 0; i < 5; i++) ofShop.push(await ask("/shop/x", "mallory"));
  expect({ ofShop, victimRefused: await ask("/elsewhere", "victim") }).toEqual({
    ofShop: [false, false, false, true, true],
    victimRefused: false,
  });
});

describe("where nginx accepts headers with _, which services by the rules of CGI take for -,", () => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `x-over-limit-${i}`);
  const marking = (name: string, header: string, more: object = {}) => ({
    name,
    match: { paths: [`/${name.replace(/-\d+$/, "")}`] },
    limits: quota(1),
    onLimit: { action: "tag", header: `${header}: 1` },
    ...more,
  });

  const printHeaders = `content_by_lua_block {
    for name, value in pairs(ngx.req.get_headers()) do ngx.say(name, ": ", value) end
  }`;

  async function start() {
    const gateway = await LoneGateway.start({
      policies: [
        marking("one", "x-over-limit-0"),
        marking("shadow", "x-over-limit-0", {
          mode: "shadow",
          key: ["ip"],
          overrides: [{ key: ["127.0.0.1"], mode: "enforce" }],
        }),
        ...names(12).map((header, i) => marking(`many-${i}`, header)),
      ],
      env: { SLUICE_DEBUG_SECRET: secret },
      edit: (config) =>
        config
          .replace("http {", "http {\n  underscores_in_headers on;")
          .replace("proxy_pass http://service;", printHeaders),
    });
    onTestFinished(() => gateway.stop());
    return async (path: string, ...lines: string[]) => {
      const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
      socket.write([`GET ${path} HTTP/1.1`, "Host: x", "Connection: close", ...lines, "\r\n"].join("\r\n"));
      const [, body = ""] = (await text(socket)).split("\r\n\r\n");
      return body
        .split("\n")
        .filter((line) => line.startsWith("x"))
        .sort();
    };
  }

  it.each([
    ["one", 1],
    ["many", 12],
  ])("the service gets the marks of Sluice alone: %s", async (path, count) => {
    const ask = await start();
    const forged = names(count).flatMap((name) => [
      `${name.replaceAll("-", "_")}: 0`,
      `${name.replace("-", "_")}: 0`,
      `${name}: 0`,
    ]);
    expect(await ask(`/${path}`, ...forged)).toEqual([]);
    expect(await ask(`/${path}`, ...forged)).toEqual(
      names(count)
        .map((name) => `${name}: 1`)
        .sort(),
    );
    expect(await ask(`/${path}`, "X_Other: 0")).toContain("x_other: 0");
  });

  it("so does it if an override enforces a policy in shadow mode", async () => {
    const ask = await start();
    await ask("/shadow");
    expect(await ask("/shadow", "X_Over_Limit_0: 0")).toEqual(["x-over-limit-0: 1"]);
  });

  it("the service does not get the secret of the debugging headers", async () => {
    const ask = await start();
    expect(await ask("/one", `X_Sluice_Debug: ${secret}`)).toEqual([]);
  });
});
