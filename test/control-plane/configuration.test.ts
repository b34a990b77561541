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
    [{ SLUICE_DATABASE_URL: "oracle://u:p@h/d" }, "got oracle:…"],
    [{ SLUICE_DATABASE_URL: "mysql:u:p@h/d" }, "got something else after the scheme"],
    [{ SLUICE_DATABASE_URL: "mysql://h/d" }, "expected USER before the @"],
    [{ SLUICE_DATABASE_URL: "postgres://u:p@h" }, "expected /DATABASE"],
    [{ SLUICE_DATABASE_URL: "postgres://u:p@h/d?ssl=1" }, "expected no option but host, sslmode, sslrootcert"],
    [{ SLUICE_DATABASE_URL: "postgres://u:p@h/d?sslmode=prefer" }, "expected sslmode disable, require, verify-full"],
    [{ SLUICE_DATABASE_URL: "postgres://u%ff:p@h/d" }, "expected USER, PASSWORD and DATABASE in UTF-8"],
    [{ SLUICE_DATABASE_URL: "postgres://u:p@h/d", SLUICE_DATABASE_CONNECTIONS: "1" }, "a whole number from 2 to 1000"],
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

  it.each([
    [
      "postgres://u:p%40ss@db.test/books",
      { kind: "postgres", host: "db.test", port: 5432, password: "p@ss", tls: undefined },
    ],
    ["postgresql://u@[::1]:80/b", { kind: "postgres", host: "::1", port: 80, password: "" }],
    ["mariadb://u:p@h/d?sslmode=require", { kind: "mysql", port: 3306, tls: { verify: false, caFile: undefined } }],
    ["mysql://u:p@h/d?sslrootcert=/ca.pem", { kind: "mysql", tls: { verify: true, caFile: "/ca.pem" } }],
    ["postgres://u@x/d?host=/run/postgresql", { kind: "postgres", host: "/run/postgresql", connections: 10 }],
  ])("reads %s", (SLUICE_DATABASE_URL, database) => {
    expect(readConfiguration({ SLUICE_DATABASE_URL }).database).toMatchObject(database);
  });

  it("shows no secret in an error", () => {
    expect(() => readConfiguration({ SLUICE_ADMIN_TOKEN: "s3cret" })).toThrow(/^(?!.*s3cret)/);
    expect(() => readConfiguration({ SLUICE_REDIS_URL: "redis://u:s3cret@h/x" })).toThrow(/^(?!.*s3cret)/);
    expect(() => readConfiguration({ SLUICE_DATABASE_URL: "mysql://root:s3cret@h/d?x=1" })).toThrow(/^(?!.*s3cret)/);
  });
});
