// The control plane's metrics: what they count, and that operators can read what they mean.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { onePerSecond, type Running, startControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";
import { connectGateway } from "../../fixtures/servers/gateway-double.ts";
import { untilPasses } from "../../fixtures/until.ts";

async function linesOf({ call }: Running): Promise<string[]> {
  return (await call("GET", "metrics")).body.split("\n");
}

async function readSeries(running: Running, series: string): Promise<number> {
  const line = (await linesOf(running)).find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? Number.NaN);
}

it("every metric is in docs/operations.md, and nothing else is", async () => {
  const running = await startControlPlane({ SLUICE_REDIS_URL: "redis://127.0.0.1:1" });
  const served = (await linesOf(running))
    .filter((line) => line.startsWith("# TYPE "))
    .map((line) => line.split(" ")[2] ?? "");
  const page = readFileSync(join(import.meta.dirname, "../../../docs/operations.md"), "utf8");
  const [, section = ""] = page.split("### Metrics of the control plane\n");
  const rows = (section.split("\n## ")[0] ?? "").split("\n").filter((line) => line.startsWith("| `sluice_control_"));
  const documented = rows.flatMap((row) =>
    [...(row.split("|")[1] ?? "").matchAll(/`(sluice_control_\w+)/g)].map(([, name]) => name),
  );
  expect(documented.sort()).toEqual(served.sort());
});

it("requests are timed by method, route and class of status, and strangers add no series", async () => {
  const running = await startControlPlane();
  const { call } = running;
  await call("PUT", "/apps/default/policies/one", { body: onePerSecond });
  await call("PUT", "/apps/default/policies/two", { body: onePerSecond });
  await call("PUT", "/apps/default/policies/Three", { body: onePerSecond });
  const count = (method: string, route: string, status: string) =>
    readSeries(
      running,
      `sluice_control_http_request_duration_seconds_count{method="${method}",route="${route}",class="${status}"}`,
    );
  expect(await count("PUT", "/api/v1/apps/:app/policies/:policy", "2xx")).toBe(2);
  expect(await count("PUT", "/api/v1/apps/:app/policies/:policy", "4xx")).toBe(1);
  const before = (await linesOf(running)).length;
  for (let i = 0; i < 20; i++) await call("GET", `/nowhere-${i}`, { token: undefined });
  const after = (await linesOf(running)).length;
  for (const method of ["PROPFIND", "MKCOL", "REPORT", "LOCK"]) {
    for (let i = 0; i < 5; i++) await call(method, `/nowhere-${i}`, { token: undefined });
    await call(method, "/apps", { token: undefined });
  }
  const histogram = after - before;
  expect(await count("GET", "unknown", "4xx")).toBe(20);
  expect((await linesOf(running)).length - after).toBeLessThanOrEqual(2 * histogram);
});

it("a push is timed until every gateway has applied it, and its bytes are counted", async () => {
  const running = await startControlPlane();
  const pushes = () => readSeries(running, "sluice_control_push_duration_seconds_count");
  const gateways = await Promise.all(["a", "b"].map((id) => connectGateway(running, id)));
  for (const gateway of gateways) gateway.apply(await gateway.next("snapshot"));
  const before = await pushes();
  await running.call("PUT", "/apps/default/policies/one", { body: onePerSecond });
  const [first, second] = gateways;
  first?.apply(await first.next("snapshot"));
  const snapshot = await second?.next("snapshot");
  expect(await pushes()).toBe(before);
  if (snapshot !== undefined) second?.apply(snapshot);
  await untilPasses(async () => expect(await pushes()).toBe(before + 1));
  expect(await readSeries(running, "sluice_control_snapshot_build_duration_seconds_count")).toBeGreaterThan(0);
  const size = await readSeries(running, "sluice_control_snapshot_bytes");
  expect(await readSeries(running, "sluice_control_snapshot_bytes_sent_total")).toBeGreaterThanOrEqual(2 * size);
});

it("the database's statements, transactions, waits and errors are counted", async () => {
  const running = await startControlPlane();
  const selects = 'sluice_control_database_statement_duration_seconds_count{kind="select"}';
  const committed = 'sluice_control_database_transaction_duration_seconds_count{kind="write",outcome="committed"}';
  const rolledBack = 'sluice_control_database_transaction_duration_seconds_count{kind="write",outcome="rolled-back"}';
  const series = [selects, committed, "sluice_control_database_wait_duration_seconds_count"];
  const before = await Promise.all(series.map((one) => readSeries(running, one)));
  await running.call("PUT", "/apps/default/policies/one", { body: onePerSecond });
  const after = await Promise.all(series.map((one) => readSeries(running, one)));
  for (const [i, value] of after.entries()) expect(value).toBeGreaterThan(before[i] || 0);
  // A condition that is false rolls the change back.
  const headers = { "if-match": '"99"' };
  expect((await running.call("PUT", "/apps/default/policies/one", { body: onePerSecond, headers })).status).toBe(412);
  expect(await readSeries(running, rolledBack)).toBe(1);
  const errors = 'sluice_control_database_errors_total{kind="other"}';
  expect(await readSeries(running, errors)).toBe(0);
  await running.app.database.schema.dropTable("audit").execute();
  expect((await running.call("GET", "/audit")).status).toBe(500);
  expect(await readSeries(running, errors)).toBeGreaterThan(0);
});
