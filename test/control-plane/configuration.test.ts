import { describe, expect, it } from "vitest";
import { readConfiguration } from "../../control-plane/src/configuration.ts";

describe("the configuration", () => {
  it("has the documented defaults, and is frozen", () => {
    const configuration = readConfiguration({});
    expect(configuration).toMatchObject({ host: "127.0.0.1", port: 8081, redis: undefined, logLevel: "warn" });
    expect(configuration.database).toEqual({
      variable: "SLUICE_DATA_DIR",
      kind: "sqlite",
      path: `${process.cwd()}/.sluice/sluice.db`,
    });
    expect(Object.isFrozen(configuration)).toBe(true);
  });

  it("treats an empty variable as unset", () => {
    const empty = { SLUICE_CONTROL_PORT: "", SLUICE_ADMIN_TOKEN: "", SLUICE_REDIS_URL: "", SLUICE_DATABASE_URL: "" };
    expect(readConfiguration(empty)).toEqual(readConfiguration({}));
  });

  it.each([
    [
      { SLUICE_CONTROL_PORT: "80800" },
      'SLUICE_CONTROL_PORT: expected a port from 0 to 65535 (0: any free one), got "80800"',
    ],
    [{ SLUICE_CONTROL_PORT: "1e3" }, 'got "1e3"'],
    [
      { SLUICE_ADMIN_TOKEN: "short" },
      "SLUICE_ADMIN_TOKEN: expected a token of at least 16 characters, got 5 characters",
    ],
    [{ SLUICE_GATEWAY_TOKEN: "x y".repeat(9) }, "SLUICE_GATEWAY_TOKEN: expected a token of printable ASCII"],
    [{ SLUICE_LOG_LEVEL: "loud" }, "SLUICE_LOG_LEVEL: expected one of fatal, error"],
    [
      { SLUICE_REDIS_URL: "localhost" },
      "SLUICE_REDIS_URL: expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], redis+sentinel://",
    ],
    [{ SLUICE_REDIS_URL: "redis+other://:s3cret@a:1" }, "for TLS, got another scheme"],
    [{ SLUICE_DATABASE_URL: "mysql://u:p@h/d" }, "got mysql:…, which is not available yet"],
    [{ SLUICE_DATABASE_URL: "postgres://u:p@h/d" }, "got postgres:…, which is not available yet"],
    [{ SLUICE_DATABASE_URL: "sqlite:" }, "SLUICE_DATABASE_URL: expected sqlite:/path/to/file"],
  ])("refuses %j by name, with what was expected and what came", (environment, message) => {
    expect(() => readConfiguration(environment)).toThrow(message);
  });

  it("reads where Redis is, or that there is none", () => {
    expect(readConfiguration({}).redis).toBeUndefined();
    const { redis } = readConfiguration({ SLUICE_REDIS_URL: "redis+sentinel://a:1,b:2/m" });
    expect(redis).toMatchObject({ kind: "sentinel", name: "m" });
  });

  it("refuses one token for both roles", () => {
    const same = "0123456789abcdef";
    expect(() => readConfiguration({ SLUICE_ADMIN_TOKEN: same, SLUICE_GATEWAY_TOKEN: same })).toThrow("the same");
  });

  it("shows no secret in an error", () => {
    expect(() => readConfiguration({ SLUICE_ADMIN_TOKEN: "s3cret" })).toThrow(/^(?!.*s3cret)/);
    expect(() => readConfiguration({ SLUICE_REDIS_URL: "redis://u:s3cret@h/x" })).toThrow(/^(?!.*s3cret)/);
    expect(() => readConfiguration({ SLUICE_DATABASE_URL: "mysql://root:s3cret@h/d" })).toThrow(/^(?!.*s3cret)/);
  });
});
