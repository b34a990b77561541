import { spawnSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { beforeRunning, renderNginxConfig, writeGatewayFiles } from "../../launch/nginx-config.ts";
import { readSettings } from "../../launch/settings.ts";
import { workerAccount } from "../../launch/worker-account.ts";

const nginx = { path: "nginx", modules: [] };

function temporaryDir(): string {
  const directory = mkdtempSync(join(tmpdir(), "sluice-launch-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o777).toString(8);
}

/** Writes the gateway's files for a data dir with the control plane's files, and keeps what is printed meanwhile. */
function writeFiles(dataDir: string, more: Record<string, string> = {}) {
  for (const name of ["gateway-token", "sluice.db", "sluice.db-wal"]) writeFileSync(join(dataDir, name), "secret");
  const said: string[] = [];
  const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => said.push(String(text)) > 0);
  const settings = readSettings({ SLUICE_DATA_DIR: dataDir, ...more });
  try {
    return { ...writeGatewayFiles(settings, nginx), said };
  } finally {
    write.mockRestore();
  }
}

describe.skipIf(process.getuid?.() !== 0)("started by root, nginx has workers", () => {
  it("of an unprivileged account that can write the snapshot and nothing else", () => {
    const dataDir = temporaryDir();
    const { config, snapshotDir, said } = writeFiles(dataDir);
    const account = workerAccount(dataDir);
    if (account === undefined) throw new Error("no account");
    expect(account.uid).not.toBe(0);
    expect(said).toEqual([]);
    expect(readFileSync(config, "utf8")).toContain(`\nuser ${account.user} ${account.group};\n`);
    expect(modeOf(dataDir)).toBe("711");

    const can = (script: string, path: string) =>
      spawnSync("/bin/sh", ["-c", script, "sh", path], { uid: account.uid, gid: account.gid, cwd: "/" }).status === 0;
    expect(can('echo {} > "$1.new" && mv "$1.new" "$1"', join(snapshotDir, "policies.log"))).toBe(true);
    expect(can('cat "$1"', join(snapshotDir, "policies.log"))).toBe(true);
    for (const name of ["gateway-token", "sluice.db", "sluice.db-wal"]) {
      expect(can('cat "$1"', join(dataDir, name))).toBe(false);
      expect(can(': > "$1"', join(dataDir, name))).toBe(false);
    }
    for (const path of [config, join(dataDir, "new"), join(config, "../new"), join(config, "../error.log")]) {
      expect(can(': > "$1"', path)).toBe(false);
    }
    expect(can('mv "$1" "$1.moved"', snapshotDir)).toBe(false);
  });

  it("that pass through a data dir whose own directories are closed, but for those of gateways and of the check socket", () => {
    const dataDir = temporaryDir();
    for (const name of ["backup", "run", "gateway-9999"]) {
      mkdirSync(join(dataDir, name), { mode: 0o755 });
      writeFileSync(join(dataDir, name, "file"), "secret");
    }
    const { said } = writeFiles(dataDir, { SLUICE_CHECK_SOCKET: join(dataDir, "run/check.sock") });
    expect(said).toEqual([]);
    const modes = ["", "backup", "run", "gateway-9999", "gateway-8080"].map((name) => modeOf(join(dataDir, name)));
    expect(modes).toEqual(["711", "700", "755", "755", "711"]);
  });

  it("of that account in a configuration printed before its directory exists, with what to make", () => {
    const parent = temporaryDir();
    chmodSync(parent, 0o711);
    const settings = readSettings({ SLUICE_DATA_DIR: join(parent, "later") });
    const { user, group } = workerAccount(settings.dataDir) ?? {};
    expect(renderNginxConfig(settings, nginx)).toContain(`\nuser ${user} ${group};\n`);
    const directory = join(settings.gatewayDir, "workers");
    const advice = `before nginx runs this, make the directory that its workers write to and tell them of it: mkdir -p ${directory} && chown ${user}:${group} ${directory}, and SLUICE_GATEWAY_DIR=${directory} in nginx's environment`;
    expect(beforeRunning(settings)).toEqual([advice]);
    writeGatewayFiles(settings, nginx);
    expect(beforeRunning(settings)).toEqual([]);
    expect(renderNginxConfig(settings, nginx)).toContain(`\nuser ${user} ${group};\n`);
  });

  it("of root if others may not pass a directory above the data dir, and says so", () => {
    const closed = temporaryDir();
    const dataDir = join(closed, "data");
    mkdirSync(dataDir, { mode: 0o700 });
    const { config, snapshotDir, said } = writeFiles(dataDir);
    expect(readFileSync(config, "utf8")).toContain("\nuser root root;\n");
    expect(said.join("")).toContain(`nginx's workers run as root: no other account may pass ${closed} `);
    expect(snapshotDir).toBe(join(config, "../workers"));
    expect(modeOf(dataDir)).toBe("700");
  });

  it("only where no other account can replace what root writes", () => {
    const open = temporaryDir();
    chmodSync(open, 0o777);
    const ofNobody = temporaryDir();
    spawnSync("chown", ["nobody", ofNobody]);
    const linked = temporaryDir();
    symlinkSync(ofNobody, join(linked, "data"));
    for (const [dataDir, reason] of [
      [join(open, "data"), `everybody may write to ${open} (chmod go-w ${open})`],
      [ofNobody, `got ${ofNobody} of nobody`],
      [join(ofNobody, "data"), `got ${ofNobody} of nobody`],
      [join(linked, "data"), `got ${ofNobody} of nobody`],
      [join(linked, "data/below/it"), `got ${ofNobody} of nobody`],
    ] as const) {
      expect(() => workerAccount(dataDir), dataDir).toThrow(reason);
    }
    // As in /tmp, others may make files there, and replace none of root's.
    chmodSync(open, 0o1777);
    expect(workerAccount(join(open, "data"))).toBeDefined();
  });

  it("only if what root and nginx write to in the gateway's directory is no link, and nobody else's file", () => {
    const dataDir = temporaryDir();
    const { config } = writeFiles(dataDir);
    const secret = join(temporaryDir(), "secret");
    writeFileSync(secret, "secret", { mode: 0o600 });
    const gatewayDir = join(config, "..");
    const log = join(gatewayDir, "error.log");
    const replaced: Record<string, () => void> = {
      "a link": () => symlinkSync(secret, log),
      "another name": () => linkSync(secret, log),
      "a file": () => writeFileSync(log, ""),
    };
    for (const [what, replace] of Object.entries(replaced)) {
      rmSync(log);
      replace();
      if (what !== "another name") spawnSync("chown", ["-h", "nobody", log]);
      expect(() => writeFiles(dataDir), what).toThrow(`${log}: expected a file of root with one name`);
    }
    rmSync(gatewayDir, { recursive: true });
    symlinkSync(join(secret, ".."), gatewayDir);
    expect(() => writeFiles(dataDir)).toThrow(`cannot write ${gatewayDir}`);
    expect([readFileSync(secret, "utf8"), modeOf(secret), statSync(secret).uid]).toEqual(["secret", "600", 0]);
  });
});
