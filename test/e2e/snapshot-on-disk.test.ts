// If something has happened to the snapshot on its disk, a gateway starts with the one before it, and its log says so. Nothing
// that lies in the snapshot's place keeps nginx from starting.

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ask } from "../fixtures/clients/requests.ts";
import { withShortPauses } from "../fixtures/clients/short-pauses.ts";
import { ControlPlaneDouble } from "../fixtures/servers/control-plane-double.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { until } from "../fixtures/servers/system.ts";

const policies = (quota: number) => [
  { app: "default", document: { name: "daily", limits: [{ algorithm: "fixed-window", quota, window: "366d" }] } },
];

let gateway: LoneGateway;
let newest: string;
let former: string;
let texts: { newest: string; former: string };
beforeAll(async () => {
  const port = await freePort();
  const control = new ControlPlaneDouble(port);
  gateway = await LoneGateway.start({
    env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` },
    policies: undefined,
    edit: (config) => withShortPauses(config),
  });
  newest = join(gateway.snapshotDir, "snapshot.json");
  former = join(gateway.snapshotDir, "snapshot-former.json");
  await control.push(policies(5), []);
  // Once it is on disk for good, after 0.1 s here, the next snapshot makes it the former one.
  await sleep(800);
  await control.push(policies(7), []);
  await until("the former one is kept", 5000, () => statSync(former, { throwIfNoEntry: false }) !== undefined);
  await control.stop();
  texts = { newest: readFileSync(newest, "utf8"), former: readFileSync(former, "utf8") };
});
afterAll(() => gateway?.stop());

beforeEach(() => {
  const { uid, gid } = statSync(gateway.snapshotDir);
  for (const [path, text] of [[newest, texts.newest] as const, [former, texts.former] as const]) {
    rmSync(path, { recursive: true, force: true });
    writeFileSync(path, text, { mode: 0o600 });
    spawnSync("chown", [`${uid}:${gid}`, path]);
  }
});

const limitReported = async () => (await ask(gateway.url)).headers["x-ratelimit-limit"];
/** @returns the log of one start */
async function logOfRestart(): Promise<string> {
  const before = gateway.log.length;
  await gateway.restart();
  return gateway.log.slice(before);
}

describe("the newer snapshot on disk", () => {
  it("serves if it is whole", async () => {
    const log = await logOfRestart();
    expect(log).toMatch(/starts with revision 3 from \S+\/snapshot\.json/);
    expect(log).not.toContain("cannot be used");
    expect(await limitReported()).toBe("7");
    for (const path of [newest, former]) expect((statSync(path).mode & 0o777).toString(8)).toBe("600");
  });

  it.each([
    {
      what: "has another number in it",
      spoil: () => writeFileSync(newest, texts.newest.replace('"quota":7', '"quota":9')),
      why: "its checksum does not match",
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
  ])("is replaced by the one before if it $what, and the log says so", async ({ spoil, why }) => {
    spoil();
    const log = await logOfRestart();
    expect(await limitReported()).toBe("5");
    expect(log).toContain("snapshot-former.json, the previous snapshot, serves with revision 2");
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
});
