// Prepares what the three services need: puts the policy of sms-vendor.json, and writes a caller token into the file SLUICE_TOKEN_FILE.
// It uses the REST API with the admin token, and may run again: a token that is still known stays, because running services have read it.

import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fail, SetupError, say } from "../launch/step.mjs";

interface Applied {
  readonly gateways: number;
  readonly acked: number;
}

interface TokenPage {
  readonly tokens: readonly { readonly name: string; readonly lastFour: string }[];
}

const patienceMs = 30_000;
const tokenName = "examples";

try {
  const controlUrl = process.env["SLUICE_CONTROL_URL"] || "http://127.0.0.1:8081";
  const adminToken = required("SLUICE_API_TOKEN", "the admin token that the control plane's first start printed");
  const tokenFile = required("SLUICE_TOKEN_FILE", "a path for the services' token");
  await setUp(new URL("/api/v1", controlUrl).href, adminToken, tokenFile);
} catch (error) {
  fail(error);
}

async function setUp(api: string, adminToken: string, tokenFile: string): Promise<void> {
  const ask = (method: string, path: string, body?: object) => askApi(`${api}${path}`, method, adminToken, body);
  const policy = JSON.parse(readFileSync(new URL("sms-vendor.json", import.meta.url), "utf8")) as { name: string };
  const { applied } = (await ask("PUT", `/apps/default/policies/${policy.name}?wait=5s`, policy)) as {
    applied: Applied;
  };
  say(`${policy.name}: ${applied.acked} of ${applied.gateways} connected gateways apply it`);

  const { tokens } = (await ask("GET", "/tokens?limit=1000")) as TokenPage;
  const present = tokenIn(tokenFile);
  if (tokens.some(({ name, lastFour }) => name === tokenName && present?.endsWith(lastFour))) {
    say(`${tokenFile}: the token that is there is still known`);
    return;
  }
  const body = { name: tokenName, app: "default", role: "caller" };
  const { token } = (await ask("POST", "/tokens?wait=5s", body)) as { token: string };
  writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
  say(`${tokenFile}: a new caller token`);
}

/** Asks again while there is no answer: a container may start before the network knows the others' names. */
async function askApi(url: string, method: string, token: string, body?: object): Promise<unknown> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const request = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  const giveUpAt = Date.now() + patienceMs;
  for (;;) {
    const response = await fetch(url, request).catch((error: Error) => error);
    if (!(response instanceof Error)) {
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      throw new SetupError(`${method} ${url}: expected that it is carried out, got ${response.status} ${text.trim()}`);
    }
    if (Date.now() > giveUpAt) {
      const { message } = (response.cause as Error | undefined) ?? response;
      throw new SetupError(`${method} ${url}: expected an answer within ${patienceMs / 1000} s, got ${message}`);
    }
    await sleep(200);
  }
}

function tokenIn(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function required(name: string, expected: string): string {
  const value = process.env[name];
  if (value) return value;
  throw new SetupError(`${name}: expected ${expected}, got nothing`);
}
