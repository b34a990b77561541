// Tests which policies match in nginx: by hosts, paths, methods and headers as a client sends them.

import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { ask, type RequestOptions } from "../fixtures/clients/requests.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";

/** Each policy refuses everything, by a status of its own. */
const refusing = (status: number, match: object) => ({
  name: `s${status}`,
  match,
  cost: 2,
  limits: [{ algorithm: "fixed-window", quota: 2, window: "366d" }],
  onLimit: { status },
});

let gateway: LoneGateway;
beforeAll(async () => {
  gateway = await LoneGateway.start({
    policies: [
      refusing(431, { paths: ["/exact", "/prefix/*"] }),
      refusing(432, { paths: ["~^/v[0-9]+/books$", "/also"] }),
      refusing(433, { paths: ["~^/caf.$"], methods: ["GET"] }),
      refusing(434, { headers: { "X-Plan": ["free", "trial"], "x-eu-region": ["eu west"] } }),
      refusing(435, { hosts: ["*.example.com"], paths: ["/host/*"] }),
    ],
  });
});
afterAll(() => gateway?.stop());

/** The first request is charged, and the second refused. @returns the status of the policy that refused, or undefined */
async function refusedBy(path: string, options: RequestOptions = {}): Promise<number | undefined> {
  await ask(gateway.url + path, options);
  const { status } = await ask(gateway.url + path, options);
  return status > 430 ? status : undefined;
}

describe("nginx matches policies by", () => {
  test.each<[by: string, path: string, options: RequestOptions, status: number | undefined]>([
    ["an exact path", "/exact", {}, 431],
    ["an exact path, spelled otherwise", "//%65xact?q", {}, 431],
    ["a prefix", "/prefix/a/b", {}, 431],
    ["nothing: a path beside the prefix", "/prefix", {}, undefined],
    ["a regular expression", "/v12/books", {}, 432],
    ["a regular expression, the path spelled otherwise", "/./v12/x/../%62ooks", {}, 432],
    ["nothing: a path that the expression does not match", "/v12/books/1", {}, undefined],
    ["a path beside a regular expression", "/also", {}, 432],
    ["one character of UTF-8", "/caf%C3%A9", {}, 433],
    ["one byte that is no UTF-8", "/caf%ff", {}, 433],
    ["nothing: another method", "/caf%ff", { method: "POST" }, undefined],
    [
      "headers, whatever the case of their names",
      "/h",
      { headers: { "x-PLAN": "free", "X-Eu-Region": "eu west" } },
      434,
    ],
    ["another value of a header", "/h", { headers: { "x-plan": "trial", "x-eu-region": "eu west" } }, 434],
    ["nothing: a header is missing", "/h", { headers: { "x-plan": "free" } }, undefined],
    ["nothing: a value in capitals", "/h", { headers: { "x-plan": "FREE", "x-eu-region": "eu west" } }, undefined],
    ["the host", "/host/1", { headers: { host: "a.example.com" } }, 435],
    ["nothing: the host's own name", "/host/1", { headers: { host: "example.com" } }, undefined],
  ])("%s", async (_, path, options, status) => {
    expect(await refusedBy(path, options)).toBe(status);
  });
});

it("answers every request by a decision: none passed undecided", () => {
  expect(gateway.log).not.toContain("passed undecided");
});
