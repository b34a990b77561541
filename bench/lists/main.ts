// npm run bench -- lists: how long the REST API's lists take for a page, when each has ten thousand rows.
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { buildControlPlane } from "../../control-plane/src/app.ts";
import { readConfiguration } from "../../control-plane/src/configuration.ts";
import { SetupError, say } from "../../launch/step.mjs";
import { table, writeJson } from "../report.ts";
import { median } from "../statistics.ts";
import type { ListsOptions } from "./options.ts";
import { apps, fill, ownerTokens } from "./rows.ts";

const adminToken = "bench-admin-token-0123456789";
/** The page of a default size. */
const pageSize = 100;

interface Page {
  readonly list: string;
  readonly asker: string;
  readonly page: "first" | "middle" | "largest";
  readonly items: number;
  readonly medianMs: number;
  readonly mostMs: number;
  /** CPU of the process, which is the control plane and the client, and SQLite too. */
  readonly cpuMs: number;
}

interface List {
  readonly list: string;
  readonly path: string;
  readonly token: string;
  readonly asker: string;
  /** The query that leads to the next page. */
  readonly cursor: "after" | "before";
}

export async function lists({ rows, times, databaseUrl, jsonFile }: ListsOptions): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-bench-lists-"));
  const environment = {
    SLUICE_DATA_DIR: directory,
    SLUICE_CONTROL_PORT: "0",
    SLUICE_ADMIN_TOKEN: adminToken,
    SLUICE_LOG_LEVEL: "silent",
    ...(databaseUrl === undefined ? {} : { SLUICE_DATABASE_URL: databaseUrl }),
  };
  const { app } = await buildControlPlane(readConfiguration(environment));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    const { stored } = await app.database
      .selectFrom("policies")
      .select(({ fn }) => fn.countAll().as("stored"))
      .executeTakeFirstOrThrow();
    if (Number(stored) > 0)
      throw new SetupError(`--database: expected an empty database, got one with ${stored} policies`);
    await fill(app.database, rows, Date.now());
    const url = await app.listen({ host: "127.0.0.1", port: 0 });
    const ask = (path: string, token: string) => timed(url, agent, path, token);
    const pages: Page[] = [];
    for (const list of allLists()) pages.push(...(await pagesOf(list, rows, times, ask)));
    const [{ model = "unknown" } = {}] = cpus();
    const kind = databaseUrl === undefined ? "SQLite" : new URL(databaseUrl).protocol.replace(":", "");
    writeJson(jsonFile, {
      date: new Date().toISOString(),
      cpu: model,
      node: process.version,
      kind,
      rows,
      times,
      pages,
    });
    process.stdout.write(`\n${tableOf(pages)}\n\n`);
    say(`${kind}, ${rows} rows in each list, ${times} requests for each page; load ${(loadavg()[0] ?? 0).toFixed(1)}`);
    say(`results are in ${jsonFile}`);
  } finally {
    agent.destroy();
    await app.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function allLists(): List[] {
  const { large, small } = apps;
  const list = (name: string, path: string, cursor: List["cursor"] = "after"): List[] => [
    { list: name, path, cursor, asker: "admin", token: adminToken },
    { list: name, path, cursor, asker: `owner of ${large}`, token: ownerTokens[large] },
    { list: name, path: path.replace(large, small), cursor, asker: `owner of ${small}`, token: ownerTokens[small] },
  ];
  return [
    ...list("policies", `/apps/${large}/policies`),
    ...list("bans", `/apps/${large}/bans`),
    ...list("tokens", "/tokens"),
    ...list("members", "/members"),
    ...list("revisions", "/revisions", "before"),
    ...list("audit", "/audit", "before"),
    ...list("audit of a person", "/audit?who=person-7", "before"),
  ];
}

type Ask = (path: string, token: string) => Promise<{ body: string; ms: number; cpuMs: number }>;

async function pagesOf(
  { list, path, cursor, asker, token }: List,
  rows: number,
  times: number,
  ask: Ask,
): Promise<Page[]> {
  const to = (query: string) => `/api/v1${path}${path.includes("?") ? "&" : "?"}${query}`;
  const page = async (name: Page["page"], query: string): Promise<Page> => {
    const took: number[] = [];
    const used: number[] = [];
    let items = 0;
    for (let i = 0; i < times; i++) {
      const { body, ms, cpuMs } = await ask(to(query), token);
      took.push(ms);
      used.push(cpuMs);
      items = itemsOf(body).length;
    }
    return { list, asker, page: name, items, medianMs: median(took), mostMs: Math.max(...took), cpuMs: median(used) };
  };
  const found = [await page("first", `limit=${pageSize}`)];
  let next = "";
  for (let passed = 0; passed < rows / 2; passed += 1_000) {
    const { body } = await ask(to(`limit=1000${next === "" ? "" : `&${cursor}=${next}`}`), token);
    const given = JSON.parse(body).next;
    if (given === undefined) return found;
    next = encodeURIComponent(given);
  }
  found.push(await page("middle", `limit=${pageSize}&${cursor}=${next}`), await page("largest", "limit=1000"));
  return found;
}

/** @throws Error if the answer is no page */
function itemsOf(body: string): unknown[] {
  const items = Object.values(JSON.parse(body)).find(Array.isArray);
  if (items === undefined) throw new Error(`expected a page, got ${body.slice(0, 200)}`);
  return items;
}

/** From sending the request to the last byte of the answer. */
function timed(url: string, agent: Agent, path: string, token: string): ReturnType<Ask> {
  const beganAt = performance.now();
  const cpuBefore = process.cpuUsage();
  return new Promise((resolve, reject) => {
    const outgoing = request(url + path, { agent, headers: { authorization: `Bearer ${token}` } }, (incoming) => {
      const parts: Buffer[] = [];
      incoming.on("data", (part: Buffer) => parts.push(part));
      incoming.on("error", reject);
      incoming.on("end", () => {
        const { user, system } = process.cpuUsage(cpuBefore);
        const body = Buffer.concat(parts).toString("utf8");
        resolve({ body, ms: performance.now() - beganAt, cpuMs: (user + system) / 1_000 });
      });
    });
    outgoing.on("error", reject);
    outgoing.end();
  });
}

function tableOf(pages: readonly Page[]): string {
  return table(
    ["list", "asked by", "page", "items", "median ms", "at most ms", "CPU ms"],
    pages.map(({ list, asker, page, items, medianMs, mostMs, cpuMs }) => [
      list,
      asker,
      page,
      `${items}`,
      medianMs.toFixed(1),
      mostMs.toFixed(1),
      cpuMs.toFixed(1),
    ]),
  ).join("\n");
}
