// If something has happened to the log of policies on its disk, a gateway starts with what of it is whole, or with the log before, and
// nginx's log says so. Nothing that lies in the log's place keeps nginx from starting.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { withShortPauses } from "../fixtures/clients/short-pauses.ts";
import { frameText } from "../fixtures/documents/loaded-state.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until } from "../fixtures/until.ts";

const policies = (quota: number) => [
  { app: "default", document: { name: "daily", limits: [{ algorithm: "fixed-window", quota, window: "366d" }] } },
];
/** By more than this, the log grows before it is written anew. */
const growth = Array.from({ length: 20 }, (_, i) => ({
  app: "default",
  document: {
    name: `filling-${i}`,
    match: { paths: Array.from({ length: 60 }, (__, j) => `/filling${i}/${j}/${"x".repeat(1000)}`) },
    limits: [{ algorithm: "fixed-window", quota: 1, window: "1d" }],
  },
}));

let gateway: LoneGateway;
let newest: string;
let former: string;
let earlier: string;
let earlierFormer: string;
let texts: { newest: string; former: string };
beforeAll(async () => {
  const port = await freePort();
  const control = new ControlPlaneDouble(port);
  gateway = await LoneGateway.start({
    env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` },
    // What an earlier version has left.
    policies: [{ name: "left", limits: [{ algorithm: "fixed-window", quota: 3, window: "366d" }] }],
    edit: (config) => withShortPauses(config),
  });
  newest = join(gateway.snapshotDir, "policies.log");
  former = join(gateway.snapshotDir, "policies-former.log");
  earlier = join(gateway.snapshotDir, "snapshot.json");
  earlierFormer = join(gateway.snapshotDir, "snapshot-former.json");
  expect(existsSync(earlier)).toBe(true);
  await control.push(policies(5), []);
  expect(existsSync(earlier)).toBe(false);
  const first = statSync(newest);
  // Once it is on disk for good, after 0.1 s here, it becomes the former one when it is written anew. Nothing shows that it is, so
  // this waits thirty times as long.
  await sleep(3_000);
  expect(existsSync(former)).toBe(false);
  await control.push([...policies(5), ...growth], []);
  expect(statSync(newest).ino).toBe(first.ino);
  await until("the former one is kept", () => existsSync(former));
  await control.push([...policies(7), ...growth], []);
  await control.stop();
  texts = { newest: readFileSync(newest, "utf8"), former: readFileSync(former, "utf8") };
  expect(texts.newest.match(/^=/gm)).toHaveLength(2);
  expect(texts.former.match(/^=/gm)).toHaveLength(2);
});
afterAll(() => gateway?.stop());

function putFile(path: string, text: string): void {
  const { uid, gid } = statSync(gateway.snapshotDir);
  rmSync(path, { recursive: true, force: true });
  writeFileSync(path, text, { mode: 0o600 });
  spawnSync("chown", [`${uid}:${gid}`, path]);
}

beforeEach(() => {
  for (const path of [earlier, earlierFormer]) rmSync(path, { recursive: true, force: true });
  putFile(newest, texts.newest);
  putFile(former, texts.former);
});

const limitReported = async () => (await ask(gateway.url)).headers["x-ratelimit-limit"];
/** @returns the log of one start */
async function logOfRestart(): Promise<string> {
  const before = gateway.log.length;
  await gateway.restart();
  return gateway.log.slice(before);
}

describe("the newer log on disk", () => {
  it("serves if it is whole", async () => {
    const log = await logOfRestart();
    expect(log).toMatch(/starts with revision 4 from \S+\/policies\.log/);
    expect(log).not.toMatch(/cannot be used|damaged/);
    expect(await limitReported()).toBe("7");
    for (const path of [newest, former]) expect((statSync(path).mode & 0o777).toString(8)).toBe("600");
  });

  it.each([
    { what: "has another number in it", spoilt: () => texts.newest.replace('"quota":7', '"quota":9') },
    { what: "has another revision in it", spoilt: () => texts.newest.replace('"revision":4', '"revision":9') },
    { what: "was written only in part", spoilt: () => texts.newest.slice(0, -100) },
    { what: "lacks its last byte", spoilt: () => texts.newest.slice(0, -1) },
  ])("serves without its last change if that $what, and the log says so", async ({ spoilt }) => {
    expect(spoilt()).not.toBe(texts.newest);
    writeFileSync(newest, spoilt());
    const log = await logOfRestart();
    expect(await limitReported()).toBe("5");
    expect(log).toMatch(/policies\.log is damaged: its last \d+ bytes cannot be used\. Revision 3 serves until/);
  });

  it("serves whole if something follows it, and the log says so", async () => {
    writeFileSync(newest, `${texts.newest}+p:default:daily {"app":"default"}\n={"epoch":"double","revision":5}\n`);
    const log = await logOfRestart();
    expect(await limitReported()).toBe("7");
    expect(log).toMatch(/policies\.log is damaged: its last \d+ bytes cannot be used\. Revision 4 serves until/);
  });

  it.each([
    {
      what: "has another number in its beginning",
      spoil: () => writeFileSync(newest, texts.newest.replace('"quota":5', '"quota":9')),
      why: "the checksum of its beginning does not match",
    },
    {
      what: "was cut short",
      spoil: () => writeFileSync(newest, texts.newest.slice(0, texts.newest.length / 2)),
      why: "it is damaged",
    },
    { what: "is empty", spoil: () => writeFileSync(newest, ""), why: "it is damaged" },
    { what: "is gone", spoil: () => rmSync(newest), why: "it does not exist" },
    {
      what: "is a pipe",
      spoil: () => {
        rmSync(newest);
        spawnSync("mkfifo", [newest]);
      },
      why: "it is not a regular file",
    },
    {
      what: "is a directory",
      spoil: () => {
        rmSync(newest);
        mkdirSync(newest);
      },
      // File systems differ in what they reply to the read of a directory.
      why: /[Dd]irectory|not a regular file/,
    },
    {
      what: "is a name for another file",
      spoil: () => {
        renameSync(newest, `${newest}.elsewhere`);
        symlinkSync(`${newest}.elsewhere`, newest);
      },
      why: "symbolic links",
    },
  ])("is replaced by the log before if it $what, and the log of nginx says so", async ({ spoil, why }) => {
    spoil();
    const log = await logOfRestart();
    expect(await limitReported()).toBe("5");
    expect(log).toContain("policies-former.log, the one before, serves with revision 3");
    expect(log).toMatch(why);
  });

  it("and the one before leave the gateway without policies if both are spoilt, and it still starts", async () => {
    writeFileSync(newest, "{");
    rmSync(former);
    spawnSync("mkfifo", [former]);
    const log = await logOfRestart();
    expect(await limitReported()).toBeUndefined();
    expect(log).toContain("There are no policies until the control plane sends them");
  });

  it("whose first policy is none that there can be is not used, although its checksum matches", async () => {
    const block = '+p:default:daily {"app":"default","document":{"name":"daily"}}\n={"epoch":"double","revision":5}';
    writeFileSync(newest, `${block} ${sha256(block)}\n`);
    const log = await logOfRestart();
    expect(await limitReported()).toBe("5");
    expect(log).toContain("policies.log cannot be used: p:default:daily.document.limits: expected");
  });
});

describe("the snapshot that an earlier version has left", () => {
  const text = (quota: number) =>
    frameText({ format: 1, epoch: "earlier", revision: quota, policies: policies(quota) });
  const withChecksum = (quota: number) => `${text(quota)}\nsha256:${sha256(text(quota))}\n`;
  beforeEach(() => {
    for (const path of [newest, former]) rmSync(path, { recursive: true, force: true });
    putFile(earlier, withChecksum(11));
    putFile(earlierFormer, withChecksum(10));
  });

  it("serves if there is no log", async () => {
    const log = await logOfRestart();
    expect(log).toMatch(/starts with revision 11 from \S+\/snapshot\.json/);
    expect(await limitReported()).toBe("11");
  });

  it("is replaced by the one before if it is damaged", async () => {
    putFile(earlier, withChecksum(11).replace('"quota":11', '"quota":99'));
    await logOfRestart();
    expect(await limitReported()).toBe("10");
  });

  it("does not serve beside a log", async () => {
    putFile(newest, texts.newest);
    await logOfRestart();
    expect(await limitReported()).toBe("7");
  });
});

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
