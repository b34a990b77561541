// Tokens for callers of the check API, made by the control plane as an operator makes them.

import type { System } from "../fixtures/servers/system.ts";

/** @returns the token of a new caller, which every gateway knows by then */
export async function callerToken(system: System, app: string): Promise<string> {
  const { status, body } = await system.api("POST", "/tokens?wait=30s", {
    name: `callers of ${app}`,
    app,
    role: "caller",
  });
  if (status !== 201) throw new Error(`no token was made: ${status} ${body}`);
  return JSON.parse(body).token as string;
}
