import { describe, expect, it } from "vitest";
import { readConfiguration } from "../../control-plane/src/configuration.ts";

const openId = {
  SLUICE_PUBLIC_URL: "https://sluice.test/",
  SLUICE_OIDC_ISSUER: "https://id.test/realms/staff",
  SLUICE_OIDC_CLIENT_ID: "sluice",
  SLUICE_OIDC_CLIENT_SECRET: "s3cret",
  SLUICE_OIDC_GROUPS:
    "platform=admin, cn=dev%2Cou=shop = shop:editor ,cn=dev%2Cou=shop=bank:viewer,platform=shop:viewer",
};

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
    [{ SLUICE_TRUSTED_PROXIES: "127.0.0.1, 0.0.0.0/0" }, 'and not all addresses, got "0.0.0.0/0"'],
    [{ SLUICE_TRUSTED_PROXIES: "::/0" }, 'and not all addresses, got "::/0"'],
    [{ SLUICE_LOG_LEVEL: "loud" }, "SLUICE_LOG_LEVEL: expected one of fatal, error"],
    [
      { SLUICE_REDIS_URL: "localhost" },
      "SLUICE_REDIS_URL: expected redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], redis+sentinel://",
    ],
    [{ SLUICE_REDIS_URL: "redis+other://:s3cret@a:1" }, "for TLS, got another scheme"],
    [{ SLUICE_DATABASE_URL: "oracle://u:p@h/d" }, "got oracle:…"],
    [{ SLUICE_DATABASE_URL: "mysql:u:p@h/d" }, "got no URL after the scheme"],
    [{ SLUICE_DATABASE_URL: "mysql://h/d" }, "expected USER before the @"],
    [{ SLUICE_DATABASE_URL: "postgres://u:p@h" }, "expected /DATABASE"],
    [{ SLUICE_DATABASE_URL: "postgres://u:p@h/d?ssl=1" }, "expected no options but host, sslmode, sslrootcert"],
    [
      { SLUICE_DATABASE_URL: "postgres://u:p@h/d?sslmode=prefer" },
      "expected sslmode to be one of disable, require, verify-full",
    ],
    [{ SLUICE_DATABASE_URL: "postgres://u%ff:p@h/d" }, "expected USER, PASSWORD and DATABASE in UTF-8"],
    [{ SLUICE_DATABASE_URL: "postgres://u:p@h/d", SLUICE_DATABASE_CONNECTIONS: "1" }, "a whole number from 2 to 1000"],
    [{ SLUICE_DATABASE_URL: "sqlite:" }, "SLUICE_DATABASE_URL: expected sqlite:/path/to/file"],
    [{ SLUICE_SESSION_HOURS: "0" }, 'SLUICE_SESSION_HOURS: expected a whole number from 1 to 720, got "0"'],
    [{ SLUICE_SESSION_IDLE_MINUTES: "1" }, "SLUICE_SESSION_IDLE_MINUTES: expected a whole number from 5 to 43200"],
    [
      { SLUICE_PUBLIC_URL: "sluice.test" },
      "SLUICE_PUBLIC_URL: expected the URL at which browsers see the control plane",
    ],
    [
      { SLUICE_PUBLIC_URL: "https://sluice.test/path" },
      'without a path, like https://sluice.example.com, got "https://',
    ],
    [{ SLUICE_PUBLIC_URL: "ftp://sluice.test" }, "SLUICE_PUBLIC_URL: expected"],
    [
      { ...openId, SLUICE_OIDC_ISSUER: "http://id.test" },
      "SLUICE_OIDC_ISSUER: expected the provider's issuer URL with https://",
    ],
    [
      { ...openId, SLUICE_OIDC_ISSUER: "" },
      "SLUICE_OIDC_ISSUER: expected the provider's URL, because SLUICE_OIDC_CLIENT_ID",
    ],
    [
      { ...openId, SLUICE_OIDC_CLIENT_SECRET: "" },
      "SLUICE_OIDC_CLIENT_SECRET: expected the client's secret at the provider",
    ],
    [{ ...openId, SLUICE_OIDC_GROUPS: "" }, "SLUICE_OIDC_GROUPS: expected what groups may do, like platform=admin"],
    [
      { ...openId, SLUICE_PUBLIC_URL: "" },
      "SLUICE_PUBLIC_URL: expected the URL at which browsers see the control plane, because",
    ],
    [
      { ...openId, SLUICE_OIDC_SCOPES: "profile" },
      "SLUICE_OIDC_SCOPES: expected scopes separated by spaces, openid among them",
    ],
    [
      { ...openId, SLUICE_OIDC_GROUPS: "platform:admin" },
      "expected GROUP=admin or GROUP=APP:ROLE with ROLE one of owner",
    ],
    [{ ...openId, SLUICE_OIDC_GROUPS: "a=shop:caller" }, 'for a comma in GROUP, got "a=shop:caller"'],
    [{ ...openId, SLUICE_OIDC_GROUPS: "a=Shop:editor" }, 'got "a=Shop:editor"'],
    [{ ...openId, SLUICE_OIDC_GROUPS: "a=admin," }, 'got ""'],
    [{ ...openId, SLUICE_OIDC_GROUPS: "=admin" }, 'got "=admin"'],
    [{ ...openId, SLUICE_OIDC_GROUPS: "%zz=admin" }, 'got "%zz=admin"'],
    [{ ...openId, SLUICE_OIDC_GROUPS: "a=shop:editor:x" }, 'got "a=shop:editor:x"'],
    [{ ...openId, SLUICE_OIDC_GROUPS: "a=shop:editor,a=shop:owner" }, "got editor and owner in shop for a"],
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

  it("reads the provider by which people sign in, or that there is none", () => {
    expect(readConfiguration({})).toMatchObject({ openId: undefined, publicOrigin: undefined });
    expect(readConfiguration({}).sessions).toEqual({ lastMs: 43_200_000, idleMs: 3_600_000 });
    const { publicOrigin, openId: provider } = readConfiguration(openId);
    expect(publicOrigin).toBe("https://sluice.test");
    expect(provider).toMatchObject({
      issuer: "https://id.test/realms/staff",
      scopes: "openid profile email",
      groupsClaim: "groups",
      redirectUri: "https://sluice.test/api/v1/session/oidc/callback",
    });
    expect(provider?.groups).toEqual(
      new Map([
        ["platform", { isAdmin: true, roles: new Map([["shop", "viewer"]]) }],
        [
          "cn=dev,ou=shop",
          {
            isAdmin: false,
            roles: new Map([
              ["shop", "editor"],
              ["bank", "viewer"],
            ]),
          },
        ],
      ]),
    );
    const local = readConfiguration({ ...openId, SLUICE_OIDC_ISSUER: "http://127.0.0.1:1/" });
    expect(local.openId?.issuer).toBe("http://127.0.0.1:1/");
  });

  it("shows no secret in an error", () => {
    expect(() => readConfiguration({ SLUICE_ADMIN_TOKEN: "s3cret" })).toThrow(/^(?!.*s3cret)/);
    expect(() => readConfiguration({ SLUICE_REDIS_URL: "redis://u:s3cret@h/x" })).toThrow(/^(?!.*s3cret)/);
    expect(() => readConfiguration({ SLUICE_DATABASE_URL: "mysql://root:s3cret@h/d?x=1" })).toThrow(/^(?!.*s3cret)/);
    for (const url of ["https://u:s3cret@h", "http://u:s3cret@h", "u:s3cret@h", "http://u:s3cret"]) {
      for (const name of ["SLUICE_OIDC_ISSUER", "SLUICE_PUBLIC_URL"]) {
        const read = () => readConfiguration({ ...openId, [name]: url });
        expect(read).toThrow(/^SLUICE_\w+: expected (?!.*s3cret).*, got a URL that may have a password$/);
      }
    }
  });
});
