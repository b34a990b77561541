// Tokens that exist from the start: one for an admin and one for gateways. There are no default credentials: a token that
// the operator does not set is made at random.

import { randomBytes } from "node:crypto";
import { chmod, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type Configuration, ConfigurationError, minTokenLength } from "../configuration.ts";
import type { Database } from "../storage/tables.ts";
import { adminTokenNames, deleteToken, insertFirstToken, replaceToken } from "../storage/tokens.ts";
import { mintToken, tokenRecord } from "./token.ts";

const gatewayTokenFile = "gateway-token";
const idFile = "control-plane-id";
const givenName = "gateway";

/**
 * Makes sure that an admin token and a gateway token exist.
 * @param warn is told of tokens that are not valid any more from now on, at no control plane of the database
 * @returns the admin token if it was made now. It must be shown at once, because nobody can read it later
 */
export async function ensureFirstTokens(
  database: Database,
  configuration: Configuration,
  nowMs: number,
  warn: (message: string) => void,
): Promise<string | undefined> {
  const gatewayToken = configuration.gatewayToken ?? (await readOrMakeGatewayToken(configuration.dataDir));
  if (gatewayToken === configuration.adminToken) {
    throw new ConfigurationError("SLUICE_ADMIN_TOKEN", "another token than the gateways'", "the same");
  }
  const { name, ended } = await gatewayTokenNames(configuration);
  if (await replaceToken(database, tokenRecord(gatewayToken, name, "gateway", nowMs), ended)) {
    const source = configuration.gatewayToken === undefined ? "The file gateway-token" : "SLUICE_GATEWAY_TOKEN";
    warn(
      `${source} does not have the token that control planes of this database had before: all of them refuse gateways with the former one from now on`,
    );
  }
  return ensureAdminToken(database, configuration.adminToken, nowMs, warn);
}

/**
 * A token that an operator sets ends every other gateway token. A control plane that makes its own ends the one that was set, and its own
 * former one, because control planes that share a database must not end each other's.
 *
 * @returns the token's name, and the names of the tokens that it ends (undefined: all)
 */
async function gatewayTokenNames({ gatewayToken, database, dataDir }: Configuration) {
  if (gatewayToken !== undefined || database.kind === "sqlite") return { name: givenName, ended: undefined };
  const name = `${givenName}-${await readOrMake(join(dataDir, idFile), () => randomBytes(8).toString("hex"))}`;
  return { name, ended: [givenName, name] };
}

async function ensureAdminToken(
  database: Database,
  given: string | undefined,
  nowMs: number,
  warn: (message: string) => void,
): Promise<string | undefined> {
  if (given !== undefined) {
    if (
      await replaceToken(database, tokenRecord(given, adminTokenNames.given, "admin", nowMs), [adminTokenNames.given])
    ) {
      warn("SLUICE_ADMIN_TOKEN is another token than before: the former one is not valid any more");
    }
    return undefined;
  }
  // The operator removed the variable: the token that it contained must not stay valid.
  if (await deleteToken(database, "admin", adminTokenNames.given)) {
    warn(
      "SLUICE_ADMIN_TOKEN is not set: the token that it had before is not valid any more, at no control plane of this database",
    );
  }
  const made = mintToken("admin");
  return (await insertFirstToken(database, tokenRecord(made, adminTokenNames.made, "admin", nowMs))) ? made : undefined;
}

/** Only the gateway on the same machine reads this file; its mode keeps other users out. */
async function readOrMakeGatewayToken(dataDir: string): Promise<string> {
  const path = join(dataDir, gatewayTokenFile);
  const token = await readOrMake(path, () => mintToken("gateway"));
  if (token.length < minTokenLength) {
    throw new ConfigurationError(
      path,
      `a token of at least ${minTokenLength} characters`,
      `${token.length} characters`,
    );
  }
  await chmod(path, 0o600);
  return token;
}

async function readOrMake(path: string, make: () => string): Promise<string> {
  return (await readText(path)) ?? (await writeText(path, make()));
}

/** @returns undefined if there is no file, or an empty one, which a start on a full disk may have left */
async function readText(path: string): Promise<string | undefined> {
  try {
    const text = (await readFile(path, "utf8")).trim();
    return text === "" ? undefined : text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Writes the file completely or not at all: a gateway may be waiting for it, and the disk may be full. */
async function writeText(path: string, text: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}`;
  try {
    await writeFile(draft, `${text}\n`, { mode: 0o600, flush: true });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  return text;
}
