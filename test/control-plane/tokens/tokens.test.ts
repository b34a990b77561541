import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { describe, expect, it } from "vitest";
import { adminTokenNames, deleteToken, replaceToken } from "../../../control-plane/src/storage/tokens.ts";
import { tokenRecord } from "../../../control-plane/src/tokens/token.ts";
import { openPushSocket } from "../../fixtures/clients/simulated-gateway.ts";
import {
  adminToken,
  gatewayToken,
  startControlPlane,
  temporaryDir,
} from "../../fixtures/servers/control-plane-under-test.ts";
import { databaseUrlFor, storedText, testDatabaseKind } from "../../fixtures/servers/test-database.ts";
import { holdWriting } from "../routes/held-writing.ts";

describe("tokens", () => {
  it("answers 401 without one, with an unknown one and with another scheme", async () => {
    const { call } = await startControlPlane();
    const answers = [
      await call("GET", "/apps", { token: undefined }),
      await call("GET", "/apps", { token: "sluice_adm_guess" }),
      await call("GET", "/apps", { token: undefined, headers: { authorization: `Basic ${adminToken}` } }),
    ];
    for (const { status, headers, body } of answers) {
      expect(status).toBe(401);
      expect(headers.get("www-authenticate")).toBe("Bearer");
      expect(headers.get("content-type")).toContain("application/problem+json");
      expect(body.code).toBe("unauthorized");
    }
  });

  it("answers 401 for one that has expired", async () => {
    let nowMs = 1_000_000;
    const { app, call } = await startControlPlane({}, { now: () => nowMs });
    const record = tokenRecord("a-token-for-an-hour", "hourly", "admin", nowMs);
    await replaceToken(app.database, { ...record, expiresAtMs: nowMs + 3_600_000 }, [record.name]);
    expect((await call("GET", "/apps", { token: "a-token-for-an-hour" })).status).toBe(200);
    nowMs += 3_600_000;
    expect((await call("GET", "/apps", { token: "a-token-for-an-hour" })).status).toBe(401);
  });

  it("answers 403 to a gateway's token on every REST route", async () => {
    const { call } = await startControlPlane();
    for (const path of ["/apps", "/apps/default", "/apps/default/policies", "/revisions", "/gateways"]) {
      const { status, body } = await call("GET", path, { token: gatewayToken });
      expect([path, status, body.code]).toEqual([path, 403, "forbidden"]);
    }
  });

  it("leaves health, metrics and the description of the API open", async () => {
    const { call } = await startControlPlane();
    for (const path of ["healthz", "readyz", "metrics", "openapi.json", "docs/"]) {
      expect([path, (await call("GET", path, { token: undefined })).status]).toEqual([path, 200]);
    }
  });

  it("that a start without SLUICE_ADMIN_TOKEN ends waits for the change that it has let in", async () => {
    const running = await startControlPlane();
    const goOn = await holdWriting(running, async () => undefined);
    const ended = deleteToken(running.app.database, "admin", adminTokenNames.given);
    expect(await Promise.race([ended, sleep(300, "waits")])).toBe("waits");
    await goOn();
    expect(await ended).toBe(true);
    expect((await running.call("GET", "/apps")).status).toBe(401);
  });

  it("warns of a token that is not valid any more because a later start has another one, or none", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const warnings = async (environment: Record<string, string>) => {
      const lines: { level: number; msg: string }[] = [];
      const running = await startControlPlane(
        { SLUICE_DATA_DIR, SLUICE_LOG_LEVEL: "warn", ...environment },
        { logTo: { write: (line) => void lines.push(JSON.parse(line)) } },
      );
      await running.stop();
      return lines.map(({ msg }) => msg).filter((msg) => msg.includes("_TOKEN"));
    };
    expect(await warnings({})).toEqual([]);
    expect(await warnings({})).toEqual([]);
    expect(await warnings({ SLUICE_GATEWAY_TOKEN: "another-gateway-token-0123456789" })).toEqual([
      expect.stringMatching(
        /^SLUICE_GATEWAY_TOKEN does not have the token .* refuse gateways with the former one from now on$/,
      ),
    ]);
    const sameGateways = { SLUICE_GATEWAY_TOKEN: "another-gateway-token-0123456789" };
    expect(await warnings({ ...sameGateways, SLUICE_ADMIN_TOKEN: "another-admin-token-0123456789" })).toEqual([
      "SLUICE_ADMIN_TOKEN is another token than before: the former one is not valid any more",
    ]);
    expect(await warnings({ ...sameGateways, SLUICE_ADMIN_TOKEN: "" })).toEqual([
      expect.stringMatching(/^SLUICE_ADMIN_TOKEN is not set: the token that it had before is not valid any more/),
    ]);
  });

  it("makes an admin token at the first start only, and stores only its hash", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const environment = { SLUICE_DATA_DIR, SLUICE_ADMIN_TOKEN: "", SLUICE_GATEWAY_TOKEN: "" };
    const first = await startControlPlane(environment);
    const token = first.firstAdminToken ?? "";
    expect(token).toMatch(/^sluice_adm_[A-Za-z0-9_-]{43}$/);
    expect((await first.call("GET", "/apps", { token })).status).toBe(200);
    expect((await storedText(first)).includes(token)).toBe(false);
    await first.stop();

    const second = await startControlPlane(environment);
    expect(second.firstAdminToken).toBeUndefined();
    expect((await second.call("GET", "/apps", { token })).status).toBe(200);
  });

  it("forgets the token of the environment when the variable changes or is removed", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    await (await startControlPlane({ SLUICE_DATA_DIR })).stop();

    const changed = await startControlPlane({ SLUICE_DATA_DIR, SLUICE_ADMIN_TOKEN: "another-admin-token" });
    expect((await changed.call("GET", "/apps", { token: adminToken })).status).toBe(401);
    expect((await changed.call("GET", "/apps", { token: "another-admin-token" })).status).toBe(200);
    await changed.stop();

    const gone = await startControlPlane({ SLUICE_DATA_DIR, SLUICE_ADMIN_TOKEN: "" });
    expect((await gone.call("GET", "/apps", { token: "another-admin-token" })).status).toBe(401);
    expect((await gone.call("GET", "/apps", { token: gone.firstAdminToken })).status).toBe(200);
  });

  it("keeps the gateways' token in a file that only its owner reads, over restarts", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    const path = join(SLUICE_DATA_DIR, "gateway-token");
    await (await startControlPlane({ SLUICE_DATA_DIR, SLUICE_GATEWAY_TOKEN: "" })).stop();
    const made = await readFile(path, "utf8");
    expect(made).toMatch(/^sluice_gw_[A-Za-z0-9_-]{43}\n$/);
    expect((await stat(path)).mode & 0o777).toBe(0o600);

    const { call } = await startControlPlane({ SLUICE_DATA_DIR, SLUICE_GATEWAY_TOKEN: "" });
    expect(await readFile(path, "utf8")).toBe(made);
    expect((await call("GET", "/apps", { token: made.trim() })).status).toBe(403);
  });

  it.skipIf(testDatabaseKind !== undefined)("keeps their hashes in a file that only its owner reads", async () => {
    const { dataDir } = await startControlPlane();
    // The directory itself is open to the gateway's workers if root starts nginx.
    for (const name of ["sluice.db", "sluice.db-wal", "sluice.db-shm"]) {
      expect((await stat(join(dataDir, name))).mode & 0o777).toBe(0o600);
    }
  });

  it("does not start with a gateways' token that was cut short", async () => {
    const SLUICE_DATA_DIR = await temporaryDir();
    await writeFile(join(SLUICE_DATA_DIR, "gateway-token"), "oops");
    const start = startControlPlane({ SLUICE_DATA_DIR, SLUICE_GATEWAY_TOKEN: "" });
    await expect(start).rejects.toThrow("expected a token of at least 16 characters, got 4 characters");
  });

  it("writes no token to the log, whatever its level", async () => {
    const lines: string[] = [];
    const logTo = { write: (line: string) => void lines.push(line) };
    const { call, app } = await startControlPlane({ SLUICE_LOG_LEVEL: "trace" }, { logTo });
    await call("GET", "/apps");
    app.log.info(
      { upstream: { headers: { authorization: `Bearer ${adminToken}` } }, token: gatewayToken },
      "a mistake",
    );
    expect(lines.join("")).toContain("[redacted]");
    expect(lines.join("")).not.toContain(adminToken);
    expect(lines.join("")).not.toContain(gatewayToken);
  });
});

describe("the gateway token that a control plane makes itself", () => {
  const another = "another-gateway-token-0123456789";
  const start = async (SLUICE_DATA_DIR: string, given = "", more: Record<string, string> = {}) => {
    const running = await startControlPlane({ SLUICE_DATA_DIR, SLUICE_GATEWAY_TOKEN: given, ...more });
    const made = given === "" ? (await readFile(join(SLUICE_DATA_DIR, "gateway-token"), "utf8")).trim() : given;
    const admits = (token: string) =>
      openPushSocket(running.url, token).then(
        (socket) => {
          socket.terminate();
          return true;
        },
        () => false,
      );
    const listed = async (): Promise<{ id: string; role: string; lastFour: string }[]> =>
      (await running.call("GET", "/tokens")).body.tokens.filter(({ role }: { role: string }) => role === "gateway");
    return { ...running, made, admits, listed };
  };
  /** Of a control plane with a data directory of its own, on the database that belongs to the directory of the other one. */
  const sharing = async (dataDir: string) => ({ SLUICE_DATABASE_URL: (await databaseUrlFor(dataDir)) as string });

  it("ends when the next start makes another, because somebody has deleted its file", async () => {
    const dataDir = await temporaryDir();
    const first = await start(dataDir);
    expect(await first.admits(first.made)).toBe(true);
    await first.stop();
    await rm(join(dataDir, "gateway-token"));
    const second = await start(dataDir);
    expect(await second.admits(first.made)).toBe(false);
    expect(await second.admits(second.made)).toBe(true);
    expect(await second.listed()).toMatchObject([{ lastFour: second.made.slice(-4) }]);
  });

  it("ends when SLUICE_GATEWAY_TOKEN sets another, which ends when the variable is removed", async () => {
    const dataDir = await temporaryDir();
    const first = await start(dataDir);
    await first.stop();
    const second = await start(dataDir, another);
    expect([await second.admits(first.made), await second.admits(another)]).toEqual([false, true]);
    expect(await second.listed()).toHaveLength(1);
    await second.stop();
    const third = await start(dataDir);
    expect([await third.admits(first.made), await third.admits(another)]).toEqual([true, false]);
    expect(await third.listed()).toHaveLength(1);
  });

  it.skipIf(testDatabaseKind === undefined)(
    "does not end that of another control plane, but a set one does",
    async () => {
      const [dataDir, others] = [await temporaryDir(), await temporaryDir()];
      const one = await start(dataDir);
      const other = await start(others, "", await sharing(dataDir));
      expect([await other.admits(one.made), await one.admits(other.made)]).toEqual([true, true]);
      await other.stop();
      const set = await start(others, another, await sharing(dataDir));
      expect([await set.admits(one.made), await set.admits(other.made), await one.admits(another)]).toEqual([
        false,
        false,
        true,
      ]);
    },
  );

  it.skipIf(testDatabaseKind === undefined)("is listed and deleted by admins when its directory is lost", async () => {
    const [dataDir, lost] = [await temporaryDir(), await temporaryDir()];
    const one = await start(dataDir);
    const former = await start(lost, "", await sharing(dataDir));
    await former.stop();
    const { id } = (await one.listed()).find(({ lastFour }) => lastFour === former.made.slice(-4)) ?? { id: "" };
    const socket = await openPushSocket(one.url, former.made);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    expect((await one.call("DELETE", `/tokens/${id}`)).status).toBe(200);
    expect(await one.admits(former.made)).toBe(false);
    expect(await closed).toBe(1008);
    expect(await one.listed()).toMatchObject([{ lastFour: one.made.slice(-4) }]);
    expect((await one.call("GET", "/audit")).body.entries).toContainEqual(
      expect.objectContaining({ action: "delete-token", who: "environment" }),
    );
  });

  it("is neither listed nor deleted by anybody but admins", async () => {
    const { call, listed } = await start(await temporaryDir());
    const [{ id = "" } = {}] = await listed();
    const body = { name: "o", app: "default", role: "owner" };
    const { token } = (await call("POST", "/tokens", { body })).body;
    await call("POST", "/members", { body: { name: "ann", roles: { default: "owner" } } });
    const ofMember = (await call("POST", "/tokens", { body: { name: "m", member: "ann" } })).body.token;
    for (const asker of [token, ofMember]) {
      const { tokens } = (await call("GET", "/tokens", { token: asker })).body;
      expect(tokens.map(({ role }: { role: string }) => role)).not.toContain("gateway");
      expect((await call("DELETE", `/tokens/${id}`, { token: asker })).body.code).toBe("token-not-found");
    }
    expect(await listed()).toHaveLength(1);
  });
});

describe("the uses of tokens", () => {
  /** The parameters of each statement that stores some, with the transactions that had begun before it. */
  function stored({ storageObserver }: FastifyInstance): { ids: readonly unknown[]; transaction: number }[] {
    const found: { ids: readonly unknown[]; transaction: number }[] = [];
    let transactions = 0;
    storageObserver.add({
      statement: ({ query: { sql, parameters } }) => {
        if (/^update .tokens. set .last_used_at./.test(sql)) found.push({ ids: parameters, transaction: transactions });
      },
      transaction: () => {
        transactions += 1;
        return () => undefined;
      },
      waited: () => undefined,
      failed: () => undefined,
    });
    return found;
  }

  it("of fourteen thousand that come and go are those of the last ten thousand, and stored in parts between which others change things", async () => {
    const { app, call } = await startControlPlane();
    const { id, token } = (await call("POST", "/tokens", { body: { name: "t", app: "default", role: "viewer" } })).body;
    const parts = stored(app);
    for (let i = 0; i < 14_000; i++) app.noteTokenUse(`${i}`.padStart(24, "0"));
    expect((await call("GET", "/session", { token })).status).toBe(200);
    const storing = app.storeTokenUses();
    expect((await call("PUT", "/apps/shop", { body: { realm: {} } })).status).toBe(201);
    await storing;
    expect(parts).toHaveLength(50);
    expect(new Set(parts.map(({ transaction }) => transaction)).size).toBe(50);
    const ids = new Set(parts.flatMap((part) => part.ids));
    expect([ids.size, ids.has(id), ids.has("4".padStart(24, "0"))]).toEqual([10_000, true, false]);
    const { tokens } = (await call("GET", "/tokens")).body;
    expect(tokens.find((one: { id: string }) => one.id === id).lastUsedAt).toBeDefined();
    await app.storeTokenUses();
    expect(parts.flatMap((part) => part.ids).filter((one) => one === id)).toHaveLength(2);
  });

  it("that are deleted are forgotten", async () => {
    const { app, call } = await startControlPlane();
    const { id, token } = (await call("POST", "/tokens", { body: { name: "t", app: "default", role: "viewer" } })).body;
    const parts = stored(app);
    expect((await call("GET", "/session", { token })).status).toBe(200);
    expect((await call("DELETE", `/tokens/${id}?dryRun=true`)).status).toBe(200);
    await app.storeTokenUses();
    expect(parts.flatMap(({ ids }) => ids)).toContain(id);
    expect((await call("GET", "/session", { token })).status).toBe(200);
    expect((await call("DELETE", `/tokens/${id}`)).status).toBe(200);
    const before = parts.length;
    await app.storeTokenUses();
    expect(parts.slice(before).flatMap(({ ids }) => ids)).not.toContain(id);
  });
});
