// Sends bodies made to be misread or to take long, and checks what happens to them, and to other requests meanwhile.

import { request } from "node:http";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { readYaml } from "../../../control-plane/src/bodies/read-yaml.ts";
import { YamlThread } from "../../../control-plane/src/bodies/yaml-thread.ts";
import { startMeasuredProcess } from "../../fixtures/servers/control-plane-process.ts";
import {
  adminToken,
  onePerSecond,
  type Running,
  startControlPlane,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { untilPasses } from "../../fixtures/until.ts";
import { hostileJson, hostileYaml, slowYaml } from "./hostile-texts.ts";

const p = "/apps/default/policies/p";
const validate = "/apps/default/policies/validate";
const yaml = "application/yaml";
const limits = "limits: [{ algorithm: fixed-window, quota: 1, window: 1s }]";

async function makeToken({ call }: Running, name: string, role: string): Promise<string> {
  return (await call("POST", "/tokens", { body: { name, app: "default", role } })).body.token;
}

describe("YAML", () => {
  const refused: [string, string, string][] = [
    ["!!omap, which would match everybody", `match: !!omap [hosts: [a.test]]\n${limits}`, "line 1: tags are not read"],
    ["!!set, which would match everybody", `match: !!set {hosts}\n${limits}`, "line 1: tags are not read"],
    ["!!pairs", `match: !!pairs [hosts: [a.test]]\n${limits}`, "line 1: tags are not read"],
    ["!!binary", `description: !!binary aGk=\n${limits}`, "line 1: tags are not read"],
    ["!!timestamp", `description: !!timestamp 2030-01-01\n${limits}`, "line 1: tags are not read"],
    ["!!str, though it is of the core schema", `${limits}\ndescription: !!str 1`, "line 2: tags are not read"],
    ["!!int on nothing", `${limits}\ncost: !!int`, "line 2: tags are not read"],
    ["!", `${limits}\ndescription: ! x`, "line 2: tags are not read"],
    ["a tag of one's own", `${limits}\ndescription: !mine x`, "line 2: tags are not read"],
    ["a tag on a key", `!!str limits: []`, "line 1: tags are not read"],
    ["a tag on the document", `!!map\n${limits}`, "line 2: tags are not read"],
    ["%YAML 1.1", `%YAML 1.1\n---\n${limits}`, "line 1: the only directive that is read is %YAML 1.2"],
    ["%YAML 1.3", `%YAML 1.3\n---\n${limits}`, "line 1: the only directive that is read is %YAML 1.2"],
    ["%TAG", `%TAG ! tag:yaml.org,2002:\n---\n${limits}`, "line 1: the only directive that is read is %YAML 1.2"],
    ["a directive that nobody knows", `%FOO bar\n---\n${limits}`, "line 1: the only directive that is read"],
    ["a second document", `${limits}\n---\nname: q`, "line 2: a second document begins"],
    ["a list within itself", "a: &a [*a]", "line 1: nothing before it is called &a"],
    ["an alias of nothing", "a: *b", "line 1: nothing before it is called &b"],
    ["a number without end", "cost: .inf", "line 1: .inf is a number that JSON does not have"],
    ["no number", "cost: .nan", "line 1: .nan is a number that JSON does not have"],
    ["a key that is nothing", "~: 1", "line 1: a key of an object is no plain value"],
    ["a key that is an alias", "&a a: 1\n*a : 2", "line 1: a key of an object is no plain value"],
    ["33 lists within one another", `${"[".repeat(33)}${"]".repeat(33)}`, "more than 32 deep"],
    ["33 objects within one another", Array.from({ length: 33 }, (_, i) => `${" ".repeat(i)}a:`).join("\n"), "32 deep"],
  ];

  it.each(refused)("with %s is refused", (_, text, clause) => {
    expect(readYaml(text)).toMatchObject({ refusal: expect.stringContaining(clause) });
  });

  it("is not stored if it is refused, and the answer says why and where", async () => {
    const { call } = await startControlPlane();
    for (const [, text, clause] of refused) {
      const { status, body } = await call("PUT", p, { text, type: yaml });
      expect([text, status, body.code]).toEqual([text, 400, "malformed-body"]);
      expect(body.detail).toContain(clause);
    }
    expect((await call("GET", "/revisions")).body.revisions).toEqual([]);
  });

  it("is read by version 1.2 alone: 010 is ten, yes is a text, and << is a key like others", () => {
    const text =
      "%YAML 1.2\n---\nquota: 010\noctal: 0o10\non: yes\nbinary: 0b1\nlong: 1_000\n<<: { a: 1 }\nsixty: 1:30";
    expect(readYaml(text)).toEqual({
      json: '{"quota":10,"octal":8,"on":"yes","binary":"0b1","long":"1_000","<<":{"a":1},"sixty":"1:30"}',
    });
  });

  it("may use aliases as long as it stays within 256 KiB written out", () => {
    const often = (count: number, text: string) => readYaml(`a: &a "${text}"\nb: [${"*a,".repeat(count)}]`);
    expect(often(1_000, "x")).toHaveProperty("json");
    expect(often(250, "x".repeat(1_000))).toHaveProperty("json");
    expect(often(270, "x".repeat(1_000))).toMatchObject({ refusal: expect.stringContaining("longer than 256 KiB") });
    const doubled = Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`);
    expect(readYaml(["a0: &a0 x", ...doubled].join("\n"))).toMatchObject({
      refusal: expect.stringMatching(/^line \d+: with its aliases written out, the YAML is longer than 256 KiB$/),
    });
    const nested = Array.from({ length: 40 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}]`);
    expect(readYaml(["a0: &a0 x", ...nested.slice(0, 31)].join("\n"))).toHaveProperty("json");
    expect(readYaml(["a0: &a0 x", ...nested].join("\n"))).toMatchObject({
      refusal: expect.stringMatching(/^line 33: with its aliases written out, lists and objects lie .* 32 deep$/),
    });
    // If two anchors have the same name, an alias refers to the newer.
    expect(readYaml("- &a 1\n- &a 2\n- *a")).toEqual({ json: "[1,2,2]" });
  });

  it("may nest 32 deep, as JSON may", async () => {
    const { call } = await startControlPlane();
    const text = `${"[".repeat(32)}${"]".repeat(32)}`;
    for (const type of [yaml, "application/json"]) {
      expect((await call("PUT", p, { text, type })).body.code).toBe("invalid-policy");
      const deeper = await call("PUT", p, { text: `[${text}]`, type });
      expect(deeper.body).toMatchObject({ code: "malformed-body", detail: expect.stringContaining("32 deep") });
    }
    // Brackets within a string do not count as depth.
    const description = '[{"\\'.repeat(300);
    expect((await call("PUT", p, { body: { ...onePerSecond, description } })).status).toBe(201);
  });

  it("is refused while it is read if it has more words and marks than a document has", () => {
    for (const name of ["numbers", "empty lists"]) {
      expect(readYaml(hostileYaml[name] as string)).toMatchObject({
        refusal: expect.stringContaining("more than 160000 words and marks stand before this"),
      });
    }
    expect(readYaml(slowYaml)).toHaveProperty("json");
  });

  it("is given up if it takes too long, and the next is read", async () => {
    const { call } = await startControlPlane({}, { yamlDeadlineMs: 20 });
    const { status, body } = await call("POST", validate, { text: slowYaml, type: yaml });
    expect([status, body.code]).toEqual([400, "malformed-body"]);
    expect(body.detail).toContain("it takes longer than 20 ms to read; send JSON, or less");
    await untilPasses(async () =>
      expect((await call("POST", validate, { text: limits, type: yaml })).status).toBe(200),
    );
  });

  it("of one client waits behind that client's own, and not in front of another's", async () => {
    const running = await startControlPlane({}, { yamlDeadlineMs: 60_000 });
    const viewer = await makeToken(running, "viewer", "viewer");
    const text = slowYaml.slice(0, slowYaml.lastIndexOf("\n  - key", 60_000));
    let answered = 0;
    const attack = Array.from({ length: 12 }, () =>
      running.call("POST", validate, { text, type: yaml, token: viewer }).then(({ status }) => {
        answered += 1;
        return status;
      }),
    );
    await untilPasses(() => expect(answered).toBeGreaterThan(0));
    const before = answered;
    expect((await running.call("PUT", p, { text: limits, type: yaml })).status).toBe(201);
    // These are the ones that were being read or had been, and the one whose turn was next.
    expect(answered - before).toBeLessThan(6);
    expect(new Set(await Promise.all(attack))).toEqual(new Set([200]));
  });

  it("is refused when too much of it waits: 64 of one token, 256 in all, where the token with the most gives way", async () => {
    const thread = new YamlThread(60_000);
    onTestFinished(() => thread.stop());
    const busy = new Map<string, number>();
    const ask = (owner: string, token: string, times: number) => {
      for (let i = 0; i < times; i++) {
        thread.read(slowYaml, { owner, token }).catch(({ code }) => {
          if (code === "yaml-busy") busy.set(token, (busy.get(token) ?? 0) + 1);
        });
      }
    };
    const refused = async () => {
      await setImmediate();
      return Object.fromEntries(busy);
    };
    // The first one is being read.
    ask("a", "first", 66);
    expect(await refused()).toEqual({ first: 1 });
    for (const name of ["second", "third", "fourth"]) ask("a", name, 64);
    expect(await refused()).toEqual({ first: 1 });
    ask("a", "fifth", 1);
    expect(await refused()).toEqual({ first: 2 });
    ask("b", "other", 3);
    expect(await refused()).toEqual({ first: 2, second: 1, third: 1, fourth: 1 });
  });

  it("of somebody without a token is not read", async () => {
    const { call } = await startControlPlane();
    const text = `token: ${adminToken}`;
    const { status, body } = await call("POST", "/session", { token: undefined, text, type: yaml });
    expect([status, body.code]).toEqual([415, "unsupported-media-type"]);
  });

  it.each([
    ["five, with 60 bodies each", 5, 60, "/apps/crowd/policies/validate"],
    ["fifty, with four bodies each, at a route that names no app", 50, 4, "/revisions/1/rollback"],
  ])(
    "of many tokens of one app waits behind that app's own, and fills the line for nobody else: %s",
    async (...given) => {
      const [, count, each, path] = given;
      const running = await startControlPlane({}, { yamlDeadlineMs: 60_000 });
      await running.call("PUT", "/apps/crowd", { body: {} });
      const tokens: string[] = [];
      for (let i = 0; i < count; i++) {
        const body = { name: `one of many ${i}`, app: "crowd", role: "editor" };
        tokens.push((await running.call("POST", "/tokens", { body })).body.token);
      }
      const { token: other } = (
        await running.call("POST", "/tokens", { body: { name: "other", app: "default", role: "editor" } })
      ).body;
      const text = slowYaml.slice(0, slowYaml.lastIndexOf("\n  - key", 20_000));
      let answered = 0;
      for (const token of tokens) {
        for (let i = 0; i < each; i++) {
          running.call("POST", path, { text, type: yaml, token }).then(
            ({ status }) => {
              if (status !== 503) answered += 1;
            },
            // The rest is cut at the end of the test.
            () => undefined,
          );
        }
      }
      await untilPasses(() => expect(answered).toBeGreaterThan(0));
      const before = answered;
      const own = path.replace("crowd", "default");
      expect((await running.call("POST", own, { text: limits, type: yaml, token: other })).status).not.toBe(503);
      expect(answered - before).toBeLessThan(30);
      running.app.server.closeAllConnections();
    },
  );
});

describe("bodies of 256 KiB", () => {
  it.each([yaml, "application/json"])("are read as %s, and one byte more is not", async (type) => {
    const { call } = await startControlPlane();
    const text = JSON.stringify(onePerSecond);
    const padded = (bytes: number) => text + " ".repeat(bytes - text.length);
    expect((await call("PUT", p, { text: padded(256 * 1024), type })).status).toBe(201);
    const larger = await call("PUT", p, { text: padded(256 * 1024 + 1), type });
    expect([larger.status, larger.body.code]).toEqual([413, "body-too-large"]);
  });
});

describe("what is not UTF-8", () => {
  const bytes = (text: string, ...odd: number[]) =>
    Buffer.concat([Buffer.from(text), Buffer.from(odd), Buffer.from('"}')]);
  const bodies: [string, string, Buffer][] = [
    ["a lone byte", "application/json", bytes('{"description":"', 0xff)],
    ["Latin-1", "application/json", bytes('{"description":"caf', 0xe9)],
    ["a slash of two bytes", "application/json", bytes('{"description":"', 0xc0, 0xaf)],
    ["half of a surrogate pair", "application/json", bytes('{"description":"', 0xed, 0xa0, 0x80)],
    ["a character that is cut off", "application/json", bytes('{"description":"', 0xf0, 0x9f, 0x98)],
    ["a lone byte", yaml, bytes('{"description":"', 0xff)],
    ["half of a surrogate pair", yaml, bytes('{"description":"', 0xed, 0xa0, 0x80)],
  ];

  it("is refused, and not stored as another character", async () => {
    const { url, call } = await startControlPlane();
    for (const [what, type, body] of bodies) {
      const answer = await fetch(`${url}/api/v1${p}`, {
        method: "PUT",
        headers: { authorization: `Bearer ${adminToken}`, "content-type": type },
        body,
      });
      const { detail } = (await answer.json()) as { detail: string };
      expect([what, answer.status, detail]).toEqual([what, 400, "The body is not UTF-8."]);
    }
    expect((await call("GET", "/revisions")).body.revisions).toEqual([]);
  });

  it("is refused in a query, and not read as its own escape", async () => {
    const { call } = await startControlPlane();
    for (const query of [
      "policy=p&key=%FF",
      "policy=p&key=%zz",
      "policy=p&key=%",
      "%ff=1&policy=p",
      "policy=p&key=%ED%A0%80",
    ]) {
      const { status, body } = await call("GET", `/apps/default/counters?${query}`);
      expect([query, status, body.code]).toEqual([query, 400, "bad-request"]);
    }
  });

  it("is replaced in no text: every valid character is stored and returned unchanged", async () => {
    const { call } = await startControlPlane();
    const description = "é, \u{1f600}, \ufffd, \u00a0";
    await call("PUT", p, { body: { ...onePerSecond, description } });
    expect((await call("GET", p)).body.description).toBe(description);
    await call("PUT", p, { text: `description: "${description}!"\n${limits}`, type: yaml });
    expect((await call("GET", p)).body.description).toBe(`${description}!`);
  });
});

const seconds = 8;

describe("/healthz", () => {
  it("is answered at once while a viewer sends body after body that is made to take long", async () => {
    const { url, longestTurnMs } = await startMeasuredProcess({ SLUICE_LOG_LEVEL: "silent" });
    await longestTurnMs();
    const made = await fetch(`${url}/api/v1/tokens`, {
      method: "POST",
      headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
      body: JSON.stringify({ name: "viewer", app: "default", role: "viewer" }),
    });
    const { token } = (await made.json()) as { token: string };
    const until = performance.now() + seconds * 1000;
    const statuses = new Map<string, number>();
    const attack = async (kind: string, type: string, texts: readonly string[], first: number) => {
      for (let i = first; performance.now() < until; i++) {
        const { status } = await fetch(`${url}/api/v1${validate}`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": type },
          body: texts[i % texts.length] as string,
        });
        const answer = `${status} of ${kind}`;
        statuses.set(answer, (statuses.get(answer) ?? 0) + 1);
      }
    };
    const yamls = Object.values(hostileYaml);
    const jsons = Object.values(hostileJson);
    const attackers = [
      ...[0, 10, 20].map((first) => attack("YAML", yaml, yamls, first)),
      ...[0, 7, 14].map((first) => attack("JSON", "application/json", jsons, first)),
    ];
    const tookMs: number[] = [];
    while (performance.now() < until) {
      const began = performance.now();
      expect(await get(`${url}/healthz`)).toBe(200);
      tookMs.push(performance.now() - began);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await Promise.all(attackers);
    tookMs.sort((a, b) => a - b);
    const at = (part: number) => tookMs[Math.min(tookMs.length - 1, Math.floor(tookMs.length * part))] as number;
    const reported = [0.5, 0.99, 1].map((part) => at(part).toFixed(1)).join(" / ");
    const answers = [...statuses].map(([answer, count]) => `${count} × ${answer}`).join(", ");
    const turnMs = await longestTurnMs();
    console.log(
      `${tookMs.length} /healthz beside ${answers}: median / p99 / longest ${reported} ms; longest turn ${turnMs.toFixed(0)} ms`,
    );
    expect([...statuses.keys()].filter((answer) => answer.startsWith("5"))).toEqual([]);
    // One body once took 39 s. How long an answer takes also depends on the machine's load, a turn does not.
    expect(turnMs).toBeLessThan(100);
  });
});

function get(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    request(url, (response) => response.resume().on("end", () => resolve(response.statusCode ?? 0)))
      .on("error", reject)
      .end();
  });
}
