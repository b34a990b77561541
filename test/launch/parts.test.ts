import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { demoUpstream, gateway } from "../../launch/parts.ts";
import { projectDir, readSettings } from "../../launch/settings.ts";

const ofTheControlPlane = {
  SLUICE_ADMIN_TOKEN: "the-admin-token",
  SLUICE_DATABASE_URL: "postgres://sluice:password@127.0.0.1/sluice",
  SLUICE_OIDC_CLIENT_SECRET: "the-client-secret",
  OTEL_EXPORTER_OTLP_HEADERS: "authorization=collector",
  PGPASSWORD: "password",
};
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "sluice-parts-"));
  for (const [name, value] of Object.entries(ofTheControlPlane)) vi.stubEnv(name, value);
  vi.stubEnv("SLUICE_HEADERS", "legacy");
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true });
});

it("nginx and the demo's upstream do not get the settings of the control plane, which hold its secrets", () => {
  const settings = readSettings({ SLUICE_DATA_DIR: directory });
  const nginx = gateway(settings, { path: "nginx", modules: [] }, "gateway-token");
  for (const { env } of [nginx, demoUpstream(settings)]) {
    expect(Object.keys(env).filter((name) => name in ofTheControlPlane)).toEqual([]);
    expect(env["PATH"]).toBe(process.env["PATH"]);
  }
  expect(nginx.env).toMatchObject({ SLUICE_HEADERS: "legacy", SLUICE_GATEWAY_TOKEN: "gateway-token" });
});

it("nginx gets every setting that nginx.conf passes on to its workers, but for the token's file, because it gets the token", () => {
  const configuration = readFileSync(join(projectDir, "nginx.conf"), "utf8");
  const passedOn = [...configuration.matchAll(/^env (\w+);/gm)].map(([, name]) => name as string);
  expect(passedOn).toContain("SLUICE_HEADERS");
  for (const name of passedOn) vi.stubEnv(name, "1");
  const { env } = gateway(
    readSettings({ SLUICE_DATA_DIR: directory }),
    { path: "nginx", modules: [] },
    "gateway-token",
  );
  expect(passedOn.filter((name) => env[name] === undefined)).toEqual(["SLUICE_GATEWAY_TOKEN_FILE"]);
});
