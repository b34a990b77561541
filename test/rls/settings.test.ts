// The variables and the map of the rate limit service: what is wrong is refused before it starts, with the name, what was expected and what
// came.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { DescriptorMap } from "../../rls/src/descriptor-map.ts";
import { readSettings } from "../../rls/src/settings.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { Program } from "../fixtures/servers/program.ts";

const project = resolve(import.meta.dirname, "../..");
const directory = mkdtempSync(join(tmpdir(), "sluice-rls-"));
afterAll(() => rmSync(directory, { recursive: true }));
const token = { SLUICE_RLS_TOKEN: "a-token-of-envoy" };

it("needs a token, and has a default for everything else", () => {
  expect(readSettings(token)).toEqual({
    host: "127.0.0.1",
    port: 8083,
    gateway: "http://127.0.0.1:8079",
    token: "a-token-of-envoy",
    deadlineMs: 1000,
    onFailure: "error",
    withHeaders: false,
    maxPending: 10_000,
    map: undefined,
  });
  expect(() => readSettings({ SLUICE_RLS_TOKEN: "" })).toThrow(
    "SLUICE_RLS_TOKEN: expected a caller token of the app whose policies are asked, got nothing",
  );
});

it.each([
  ["SLUICE_RLS_PORT", "70000", 'a whole number from 0 to 65535, got "70000"'],
  ["SLUICE_RLS_PORT", "8e3", 'a whole number from 0 to 65535, got "8e3"'],
  ["SLUICE_RLS_HOST", "localhost", 'an IP address to listen on, such as 127.0.0.1 or 0.0.0.0, got "localhost"'],
  ["SLUICE_RLS_GATEWAY", "127.0.0.1:8079", 'unix:/PATH, got "127.0.0.1:8079"'],
  ["SLUICE_RLS_GATEWAY", "http://u:s3cret@a:1", "unix:/PATH, got a text that may have a password"],
  ["SLUICE_RLS_GATEWAY", "http://a:1/path", 'unix:/PATH, got "http://a:1/path"'],
  ["SLUICE_RLS_DEADLINE_MS", "0", 'a whole number from 1 to 60000, got "0"'],
  ["SLUICE_RLS_ON_FAILURE", "local", 'error, allow or deny, got "local"'],
  ["SLUICE_RLS_HEADERS", "yes", 'true or false, got "yes"'],
  ["SLUICE_RLS_MAX_PENDING", "-1", 'a whole number from 1 to 1000000, got "-1"'],
  ["SLUICE_RLS_MAP", "/nowhere/map.yaml", "a file that can be read, got /nowhere/map.yaml: ENOENT"],
  ["SLUICE_RLS_PROT", "1", "one of SLUICE_RLS_DEADLINE_MS, "],
])("refuses %s=%s", (name, value, said) => {
  const read = () => readSettings({ ...token, [name]: value });
  expect(read).toThrow(`${name}: expected `);
  expect(read).toThrow(said);
});

it("names every mistake, and never the token", () => {
  const secret = "a token with blanks";
  let said = "";
  try {
    readSettings({ SLUICE_RLS_TOKEN: secret, SLUICE_RLS_PORT: "x", SLUICE_RLS_HEADERS: "x" });
  } catch (error) {
    said = (error as Error).message;
  }
  expect(said.split("\n")).toHaveLength(3);
  expect(said).not.toContain(secret);
});

it("npm run rls ends with these lines, or says that it is ready", async () => {
  const launcher = [join(project, "launch/rls.ts")];
  const child = spawn(process.execPath, launcher, { env: { ...process.env, SLUICE_RLS_PORT: "x" } });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (printed += text));
  const [code] = await once(child, "close");
  expect(code).toBe(1);
  expect(printed.split("\n")).toEqual([
    'sluice: SLUICE_RLS_PORT: expected a whole number from 0 to 65535, got "x"',
    "sluice: SLUICE_RLS_TOKEN: expected a caller token of the app whose policies are asked, got nothing",
    "",
  ]);

  const env = { ...token, SLUICE_RLS_PORT: `${await freePort()}` };
  const program = await Program.start({
    command: process.execPath,
    args: launcher,
    env,
    readyWhen: /^sluice: ready$/m,
  });
  await program.stop("SIGTERM");
  expect(program.child.exitCode).toBe(0);
});

describe("the map", () => {
  const rule = { entries: ["user"], policy: "users" };
  const mistakes: [string, unknown, string][] = [
    ["no object", [], "expected the map: an object of domains, unmatched, rules, got []"],
    ["another field", { rule: [] }, 'expected the map: no other fields than domains, unmatched, rules, got "rule"'],
    ["no list of rules", { rules: {} }, "expected rules: a list, got {}"],
    ["a number for a domain", { domains: [1] }, "expected domains[0]: a text, got 1"],
    ["another word", { unmatched: "deny" }, 'expected unmatched: default-rule or unlimited, got "deny"'],
    [
      "no policy",
      { rules: [{ entries: ["user"] }] },
      "expected rules[0].policy: the name of a policy, or APP/POLICY, got nothing",
    ],
    [
      "a bad policy",
      { rules: [rule, { ...rule, policy: "A b" }] },
      'expected rules[1].policy: the name of a policy, or APP/POLICY, got "A b"',
    ],
    ["no entries", { rules: [{ ...rule, entries: [] }] }, "expected rules[0].entries: at least one entry, got []"],
    [
      "an entry of a number",
      { rules: [{ ...rule, entries: [{ key: 1 }] }] },
      "expected rules[0].entries[0].key: a text, got 1",
    ],
    [
      "a value that is no text",
      { rules: [{ ...rule, entries: [{ key: "a", value: true }] }] },
      "expected rules[0].entries[0].value: a text, got true",
    ],
    [
      "a key that no entry has",
      { rules: [{ ...rule, key: ["usr"] }] },
      `expected rules[0].key[0]: the key of one of the rule's entries, got "usr"`,
    ],
    [
      "a key that two entries have",
      { rules: [{ entries: ["a", "a"], policy: "users", key: ["a"] }] },
      `expected rules[0].key[0]: a key that only one of the rule's entries has, got "a"`,
    ],
  ];
  it.each(mistakes)("with %s is refused", (_, document, said) => {
    const file = join(directory, "map.json");
    writeFileSync(file, JSON.stringify(document));
    const [place = "", rest = ""] = said.split(/(?<=^expected )/);
    expect(() => readSettings({ ...token, SLUICE_RLS_MAP: file })).toThrow(
      `SLUICE_RLS_MAP: ${place}in ${file}, ${rest}`,
    );
  });

  it("that is neither YAML nor JSON is refused", () => {
    expect(() => new DescriptorMap("rules: [\n")).toThrow("the map: expected YAML or JSON");
  });

  it("takes all values of entries with the same keys, in order", () => {
    const map = new DescriptorMap("rules: [{ entries: [a, a, b], policy: twice }]");
    const entries = [
      { key: "a", value: "1" },
      { key: "a", value: "2" },
      { key: "b", value: "3" },
    ];
    expect(map.targetOf("any", entries)).toEqual({ policy: "twice", key: ["1", "2", "3"] });
    expect(map.targetOf("any", entries.slice(1))).toBeUndefined();
  });

  it("finds its rule among 10,000", () => {
    const rules = Array.from({ length: 10_000 }, (_, i) => ({ entries: [`key-${i}`], policy: `policy-${i}` }));
    const map = new DescriptorMap(JSON.stringify({ rules }));
    expect(map.targetOf("any", [{ key: "key-9999", value: "x" }])).toEqual({ policy: "policy-9999", key: ["x"] });
  });
});
