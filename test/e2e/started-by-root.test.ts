// Sluice started by root in a directory that belongs to another account, which could replace what root writes there by links.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { projectDir } from "../../launch/settings.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { freePorts } from "../fixtures/servers/free-ports.ts";
import { nginxUnderTest } from "../fixtures/servers/nginx-under-test.ts";
import { Program } from "../fixtures/servers/program.ts";

const nobody = Number(spawnSync("id", ["-u", "nobody"], { encoding: "utf8" }).stdout);
const launcher = join(projectDir, "launch/gateway.ts");

/** A data dir of nobody, and the settings of a gateway in it. */
async function gatewayOfNobody() {
  const parent = mkdtempSync(join(tmpdir(), "sluice-root-"));
  onTestFinished(() => rmSync(parent, { recursive: true, force: true }));
  chmodSync(parent, 0o711);
  const dataDir = join(parent, "data");
  mkdirSync(dataDir, { mode: 0o700 });
  chownSync(dataDir, nobody, nobody);
  const [port = 0, privatePort = 0, closedPort] = await freePorts(3);
  const env = {
    ...process.env,
    SLUICE_NGINX: nginxUnderTest().path,
    SLUICE_DATA_DIR: dataDir,
    SLUICE_GATEWAY_PORT: `${port}`,
    SLUICE_GATEWAY_PRIVATE_PORT: `${privatePort}`,
    SLUICE_GATEWAY_TOKEN: "test-gateway-token-0123456789",
    SLUICE_CONTROL_URL: `http://127.0.0.1:${closedPort}`,
    SLUICE_WORKERS: "1",
  };
  return { parent, dataDir, gatewayDir: join(dataDir, `gateway-${port}`), privatePort, env };
}

describe.skipIf(process.getuid?.() !== 0)("a gateway that root starts in another account's directory", () => {
  it("runs as that account, master process and all, and says so", async () => {
    const { dataDir, gatewayDir, privatePort, env } = await gatewayOfNobody();
    const program = await Program.start({
      command: process.execPath,
      args: [launcher],
      env,
      readyWhen: () =>
        ask(`http://127.0.0.1:${privatePort}/sluice/healthz`).then(
          () => true,
          () => false,
        ),
    });
    try {
      expect(program.output).toContain(`everything runs as nobody, because ${dataDir} belongs to nobody`);
      const master = readFileSync(join(gatewayDir, "nginx.pid"), "utf8").trim();
      for (const pid of [master, `${program.pid}`]) {
        expect(readFileSync(`/proc/${pid}/status`, "utf8")).toContain(
          `\nUid:\t${nobody}\t${nobody}\t${nobody}\t${nobody}\n`,
        );
      }
      expect(readFileSync(join(gatewayDir, "nginx.conf"), "utf8")).not.toMatch(/^user /m);
      const owners = readdirSync(dataDir, { recursive: true, encoding: "utf8" }).map(
        (name) => statSync(join(dataDir, name)).uid,
      );
      expect(new Set(owners)).toEqual(new Set([nobody]));
    } finally {
      await program.stop();
    }
  });

  it("gives that account nothing that a link names which it has put there", async () => {
    const { parent, gatewayDir, env } = await gatewayOfNobody();
    const ofRoot = join(parent, "of-root");
    mkdirSync(ofRoot, { mode: 0o755 });
    writeFileSync(join(ofRoot, "error.log"), "secret\n", { mode: 0o600 });
    symlinkSync(ofRoot, gatewayDir);
    lchownSync(gatewayDir, nobody, nobody);
    const { stderr } = spawnSync(process.execPath, [launcher], { env, encoding: "utf8", timeout: 20_000 });
    expect(statSync(ofRoot).uid).toBe(0);
    expect(readdirSync(ofRoot)).toEqual(["error.log"]);
    expect(readFileSync(join(ofRoot, "error.log"), "utf8")).toBe("secret\n");
    expect(stderr).toContain(`cannot make the directory ${join(gatewayDir, "workers")}: this user may not`);
  });
});
