// The secret that gateways show to the control plane: SLUICE_GATEWAY_TOKEN, or else a file that both can read.
import { randomBytes } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { whyNot } from "./kept-file.ts";
import type { Settings } from "./settings.ts";
import { SetupError, say } from "./step.mjs";

const patienceMs = 10_000;

/** Waits if the control plane is still making the file. @throws SetupError that names what is missing */
export async function requireGatewayToken(settings: Settings): Promise<string> {
  if (settings.gatewayToken !== undefined) return settings.gatewayToken;
  const giveUpAt = Date.now() + patienceMs;
  for (let isFirst = true; ; isFirst = false) {
    const token = readToken(settings.gatewayTokenFile);
    if (token !== undefined) return token;
    if (Date.now() > giveUpAt) break;
    if (isFirst) say(`waiting for ${settings.gatewayTokenFile}, which the control plane makes at its first start …`);
    await sleep(100);
  }
  throw new SetupError(
    `there is no gateway token: expected SLUICE_GATEWAY_TOKEN, or the control plane's file ${settings.gatewayTokenFile}` +
      " (with a control plane on another machine, copy its SLUICE_GATEWAY_TOKEN)",
  );
}

/**
 * Returns the token that the control plane must accept. Makes it now if SLUICE_GATEWAY_TOKEN_FILE names a file that does not
 * exist. Undefined leaves it to the control plane, which keeps a token in its data dir.
 */
export function shareGatewayToken(settings: Settings): string | undefined {
  if (settings.gatewayToken !== undefined || !settings.gatewayTokenFileNamed) return settings.gatewayToken;
  const file = settings.gatewayTokenFile;
  const present = readToken(file);
  if (present !== undefined) return present;
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(dirname(file), { recursive: true });
    rmSync(draft, { force: true });
    writeFileSync(draft, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
    // Unlike a rename, a link never replaces a token that another control plane has made meanwhile.
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
      throw new SetupError(`cannot write the gateway token to ${file}: ${whyNot(error)}`);
    }
  } finally {
    rmSync(draft, { force: true });
  }
  return readToken(file);
}

function readToken(file: string): string | undefined {
  try {
    const token = readFileSync(file, "utf8").trim();
    return token === "" ? undefined : token;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw new SetupError(`cannot read the gateway token from ${file}: ${code}`);
  }
}
