// A control plane in a process of its own, so that its callers do not use its event loop.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, vi } from "vitest";
import { onFinished } from "../fixtures/side-by-side.ts";
import { adminToken, gatewayToken, temporaryDir } from "./control-plane-under-test.ts";

const main = fileURLToPath(new URL("../../control-plane/src/main.ts", import.meta.url));

/** Starts a control plane that ends with the test. @param env variables besides the tokens @returns its URL, once it listens */
export async function startProcess(env: NodeJS.ProcessEnv = {}): Promise<string> {
  const child = spawn(process.execPath, [main], {
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      SLUICE_CONTROL_PORT: "0",
      SLUICE_ADMIN_TOKEN: adminToken,
      SLUICE_GATEWAY_TOKEN: gatewayToken,
      SLUICE_DATA_DIR: await temporaryDir(),
      ...env,
    },
    stdio: ["ignore", "pipe", "ignore"],
  });
  onFinished(() => void child.kill("SIGKILL"));
  let printed = "";
  child.stdout.on("data", (data) => (printed += data));
  const isUp = /http:\/\/127\.0\.0\.1:\d+$/m;
  await vi.waitFor(() => expect(printed).toMatch(isUp), { timeout: 20_000 });
  return isUp.exec(printed)?.[0] as string;
}
