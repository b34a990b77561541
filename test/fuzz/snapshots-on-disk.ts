// Damages snapshots on a gateway's disk while nginx is down or runs, without a control plane. The gateway must start, limit by a
// snapshot that it was once given or report that it has none, and never use a part of one.

import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import fc from "fast-check";
import { ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { PushServer } from "../fixtures/servers/push-server.ts";
import { until } from "../fixtures/servers/system.ts";
import { GatewayWatch } from "./gateway-watch.ts";
import { type ByteChange, changedBytes, readable } from "./hostile.ts";
import { changedSnapshot, goodDelta, goodSnapshot, telltalePath, textDamage } from "./snapshot-texts.ts";
import { Fault, type Fuzzer, type Surroundings, type Target } from "./target.ts";

const patienceMs = 20_000;
const quotas = [1_111, 2_222] as const;

interface Damage {
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
  for (const [i, quota] of quotas.entries()) {
    const epoch = `kept-${i}`;
    await server.pushGood(goodSnapshot({ epoch, revision: 5, quota }), epoch, patienceMs);
  }
  await server.stop();
  const { snapshotDir } = gateway;
  const kept = readdirSync(snapshotDir)
    .filter((name) => name.includes("snapshot") && statSync(join(snapshotDir, name)).isFile())
    .map((name) => ({ path: join(snapshotDir, name), bytes: readFileSync(join(snapshotDir, name)) }));
  if (kept.length === 0) throw new Error(`no snapshot was kept in ${snapshotDir}`);
  // The files are overwritten, not replaced, so that they keep their owner.
  const restore = () => {
    for (const { path, bytes } of kept) writeFileSync(path, bytes);
  };
  const watched = new GatewayWatch("the gateway with a damaged disk", gateway.directory);
  /** Whether nginx was started with good files. */
  let hasGood = true;
  const fuzzer: Fuzzer<Damage> = {
    inputs: fc.record({
      file: fc.option(fc.nat(9), { nil: undefined, freq: 3 }),
      by: textDamage,
      nginx: fc.constantFrom("down", "down", "running"),
    }),
    async play({ file, by, nginx }) {
      restore();
      const damage = () => {
        for (const [i, { path, bytes }] of kept.entries()) {
          if (file === undefined || file % kept.length === i) writeFileSync(path, changedBytes(bytes, ...by));
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
        await until("nginx has new workers", patienceMs, () => watched.workers().every((one) => !before.includes(one)));
        watched.begun();
      }
      watched.look();
      await assess(gateway, nginx);
    },
    show: (input) => `${kept.map(({ path }) => basename(path)).join(", ")}: ${readable(input)}`,
    async recover() {
      restore();
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
  if (nginx === "running" && limit !== `${quotas[1]}`)
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
