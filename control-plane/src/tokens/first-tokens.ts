// The tokens that exist without anybody having asked for them: one for an admin, one for gateways. There are no
// default credentials: what is not given is made up here, at random.

import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Configuration, ConfigurationError, minTokenLength } from "../configuration.ts";
import type { Database } from "../storage/database.ts";
import { deleteToken, hasToken, replaceToken } from "../storage/tokens.ts";
import { mintToken, tokenRecord } from "./token.ts";

const gatewayTokenFile = "gateway-token";

/**
 * Makes sure that there is an admin token and a gateway token.
 * @returns the admin token if it was made now, to be shown once: nobody can read it later
 */
export async function ensureFirstTokens(
  database: Database,
  configuration: Configuration,
  nowMs: number,
): Promise<string | undefined> {
  const gatewayToken = configuration.gatewayToken ?? (await readOrMakeGatewayToken(configuration.dataDir));
  if (gatewayToken === configuration.adminToken) {
    throw new ConfigurationError("SLUICE_ADMIN_TOKEN", "another token than the gateways'", "the same");
  }
  await replaceToken(database, tokenRecord(gatewayToken, "gateway", "gateway", nowMs));
  return ensureAdminToken(database, configuration.adminToken, nowMs);
}

async function ensureAdminToken(
  database: Database,
  given: string | undefined,
  nowMs: number,
): Promise<string | undefined> {
  if (given !== undefined) {
    await replaceToken(database, tokenRecord(given, "environment", "admin", nowMs));
    return undefined;
  }
  // The operator took the variable away: the token that it held must not go on opening the door.
  await deleteToken(database, "admin", "environment");
  if (await hasToken(database, "admin")) return undefined;
  const made = mintToken("admin");
  await replaceToken(database, tokenRecord(made, "first-admin", "admin", nowMs));
  return made;
}

/** The gateway of the same machine reads this file; nobody else may. */
async function readOrMakeGatewayToken(dataDir: string): Promise<string> {
  const path = join(dataDir, gatewayTokenFile);
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  try {
    // "wx": of two control planes that start at once, one makes the token and the other reads it.
    const made = mintToken("gateway");
    await writeFile(path, `${made}\n`, { mode: 0o600, flag: "wx" });
    return made;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  await chmod(path, 0o600);
  const token = (await readFile(path, "utf8")).trim();
  if (token.length < minTokenLength) {
    throw new ConfigurationError(
      path,
      `a token of at least ${minTokenLength} characters`,
      `${token.length} characters`,
    );
  }
  return token;
}
