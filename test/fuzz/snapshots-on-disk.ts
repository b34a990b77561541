// Damages snapshots on a gateway's disk while nginx is down or runs, without a control plane. The gateway must start, limit by a
// snapshot that it was once given or report that it has none, and never use a part of one.

import { createHash } from "node:crypto";
import { chownSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import fc from "fast-check";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { PushServer } from "../fixtures/servers/push-server.ts";
import { until } from "../fixtures/until.ts";
import { GatewayWatch } from "./gateway-watch.ts";
import { type ByteChange, changedBytes, readable } from "./hostile.ts";
import { goodDelta, goodSnapshot, telltalePath, textDamage } from "./snapshot-texts.ts";
import { Fault, type Fuzzer, type Surroundings, type Target } from "./target.ts";

/** Of the former log, and of the blocks of the newer one: those of snapshots and that of a delta. */
const quotas = [1_111, 2_222, 3_333] as const;

interface Kept {
  readonly path: string;
  readonly bytes: Buffer;
}

interface Damage {
  readonly files: "logs" | "of earlier versions";
  /** The index of the damaged file, modulo their number; undefined: all files. */
  readonly file: number | undefined;
  readonly by: readonly ByteChange[];
  readonly nginx: "down" | "running";
}

export const snapshotsOnDisk: Target = { name: "snapshots-on-disk", worker: "gateway", start };

async function start({ stack }: Surroundings): Promise<Fuzzer<unknown>> {
  const port = await freePort();
  const server = new PushServer(port);
  const gateway = await LoneGateway.start({ env: { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}` } });
  stack.defer(() => gateway.stop());
  const { snapshotDir } = gateway;
  const pathOf = (name: string) => join(snapshotDir, name);
  const [first, second, third] = quotas;
  const push = (quota: number) =>
    server.pushGood(goodSnapshot({ epoch: `kept-${quota}`, revision: 5, quota }), `kept-${quota}`);
  await push(first);
  await until("the log is written", () => existsSync(pathOf("policies.log")));
  const former = readFileSync(pathOf("policies.log"));
  // The log has three blocks then.
  await push(second);
  server.received = [];
  server.socket?.send(goodDelta({ epoch: `kept-${second}`, revision: 5, quota: third }));
  await until("a delta is applied", () => server.received.some(({ type }) => type === "applied"));
  await server.stop();
  const ofEarlierVersions = (quota: number) => {
    const text = goodSnapshot({ epoch: "kept", revision: 5, quota });
    return Buffer.from(`${text}\nsha256:${createHash("sha256").update(text).digest("hex")}\n`);
  };
  const kept: Readonly<Record<Damage["files"], readonly Kept[]>> = {
    logs: [
      { path: pathOf("policies.log"), bytes: readFileSync(pathOf("policies.log")) },
      { path: pathOf("policies-former.log"), bytes: former },
    ],
    "of earlier versions": [
      { path: pathOf("snapshot.json"), bytes: ofEarlierVersions(third) },
      { path: pathOf("snapshot-former.json"), bytes: ofEarlierVersions(second) },
    ],
  };
  const { uid, gid } = statSync(snapshotDir);
  const restore = (files: Damage["files"]) => {
    for (const { path } of Object.values(kept).flat()) rmSync(path, { force: true });
    for (const { path, bytes } of kept[files]) {
      writeFileSync(path, bytes, { mode: 0o600 });
      chownSync(path, uid, gid);
    }
  };
  const watched = new GatewayWatch("the gateway with a damaged disk", gateway.directory);
  /** Whether nginx was started with good files. */
  let hasGood = true;
  const fuzzer: Fuzzer<Damage> = {
    inputs: fc.record({
      files: fc.constantFrom("logs", "logs", "logs", "of earlier versions"),
      file: fc.option(fc.nat(9), { nil: undefined, freq: 3 }),
      by: textDamage,
      nginx: fc.constantFrom("down", "down", "running"),
    }),
    async play({ files, file, by, nginx }) {
      restore(files);
      const damage = () => {
        for (const [i, { path, bytes }] of kept[files].entries()) {
          if (file === undefined || file % kept[files].length === i) writeFileSync(path, changedBytes(bytes, ...by));
        }
      };
      if (nginx === "down") {
        hasGood = false;
        await gateway.restart(damage);
        watched.begun();
      } else {
        if (!hasGood) await gateway.restart();
        hasGood = true;
        damage();
        const { pid } = gateway;
        const before = watched.workers();
        process.kill(pid, "SIGHUP");
        await until("nginx has new workers", () => watched.workers().every((one) => !before.includes(one)));
        watched.begun();
      }
      watched.look();
      await assess(gateway, nginx);
    },
    show: (input) => `${kept[input.files].map(({ path }) => basename(path)).join(", ")}: ${readable(input)}`,
    async recover() {
      restore("logs");
      await gateway.restart();
      hasGood = true;
      watched.begun();
    },
  };
  return fuzzer as Fuzzer<unknown>;
}

async function assess(gateway: LoneGateway, nginx: Damage["nginx"]): Promise<void> {
  const health = await ask(`${gateway.privateUrl}/sluice/healthz`);
  const { status, headers } = await ask(gateway.url + telltalePath);
  if (status >= 500) throw new Fault(`the gateway answered ${status}`);
  const limit = headers["x-ratelimit-limit"];
  if (nginx === "running" && limit !== `${quotas[2]}`)
    throw new Fault(`forgot by a reload what it had: the limit is ${limit}`);
  // The gateway serves with and without a snapshot.
  if (health.status !== 200) throw new Fault(`its health answered ${health.status}: ${health.body}`);
  if (JSON.parse(health.body).status !== "ok") {
    if (limit !== undefined) throw new Fault(`has no snapshot, by its own word, and limits to ${limit}`);
    return;
  }
  if (!quotas.some((quota) => limit === `${quota}`))
    throw new Fault(`limits to ${limit}, as no snapshot that it was given says`);
}
