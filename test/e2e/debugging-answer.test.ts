// Who shows the secret is told how the request was decided, and nobody else is.

import { afterAll, beforeAll, expect, it } from "vitest";
import { LoneGateway } from "../fixtures/lone-gateway.ts";
import { ask } from "../fixtures/requests.ts";

const secret = "a secret of the operator";
const limits = (quota: number) => [{ name: "few", algorithm: "fixed-window", quota, window: "366d" }];
const service = `content_by_lua_block { ngx.print(ngx.req.get_headers()["x-sluice-debug"] or "no secret") }`;

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      { name: "first", priority: 2, key: ["header:x-user"], limits: limits(9), onMissingKey: "deny" },
      { name: "watching", priority: 1, mode: "shadow", limits: limits(1) },
      { name: "posts", match: { methods: ["POST"] }, limits: limits(1) },
      { name: "second", match: { paths: ["/few"] }, limits: limits(1) },
    ],
    env: { SLUICE_DEBUG_SECRET: secret },
    edit: (config) => config.replace("proxy_pass http://service;", service),
  });
});
afterAll(() => gateway?.stop());

const told = async (path: string, headers: Record<string, string>) => {
  const answer = await ask(`${gateway.url}${path}`, { headers });
  return { ...answer, lines: (answer.headers["x-sluice-debug"] ?? "").split(", ") };
};

it("names the policies that were met, the keys that were charged, and who refused", async () => {
  const headers = { "x-user": "ann\u00e9;", "x-sluice-debug": secret };
  const first = await told("/few", headers);
  expect(first).toMatchObject({ status: 200, body: "no secret" });
  expect(first.lines).toEqual([
    "default/first; enforce; node; key=1%3Aann%E9%3B; charged",
    "default/watching; shadow; node; key=0%3A; allowed",
    "default/second; enforce; node; key=0%3A; charged",
    "allowed; nearest default/second few; remaining 0 of 1",
  ]);
  const refused = await told("/few", headers);
  expect(refused.status).toBe(429);
  expect(refused.lines.slice(1, 3)).toEqual([
    "default/watching; shadow; node; key=0%3A; shadow-refused",
    "default/second; enforce; node; key=0%3A; refused",
  ]);
  expect(refused.lines[3]).toMatch(
    /^refused by few; retry after [\d.]+ s; nearest default\/second few; remaining 0 of 1$/,
  );
});

it("says which attribute was missing by the policy's name", async () => {
  expect(await told("/any", { "x-sluice-debug": secret })).toMatchObject({
    status: 403,
    lines: ["default/first; enforce; node; key-missing"],
  });
});

it("tells nothing to who does not know it, and the service gets no header that it could be", async () => {
  for (const shown of ["", "a", "a secret of the operato", `${secret}r`]) {
    const answer = await told("/any", { "x-user": "bob", "x-sluice-debug": shown });
    expect(answer.headers).not.toHaveProperty("x-sluice-debug");
    expect(answer.body).not.toContain(secret.slice(0, 5));
  }
});
