import { describe, expect, it } from "vitest";
import { type Address, type Deployment, parseDeployment, poolName } from "../../../limiter/src/protocol/redis-url.ts";

const plain = { tls: false, user: "", password: "", database: 0 };

describe("SLUICE_REDIS_URL", () => {
  it.each<[string, Deployment]>([
    ["redis://h", { kind: "single", access: { ...plain, role: "single" }, address: { host: "h", port: 6379 } }],
    [
      "rediss://app:p%40ss%3a%2F%25@redis-1.example:6380/15",
      {
        kind: "single",
        access: { role: "single", tls: true, user: "app", password: "p@ss:/%", database: 15 },
        address: { host: "redis-1.example", port: 6380 },
      },
    ],
    [
      "redis://:p@s/s@[::1]:7000/",
      {
        kind: "single",
        access: { ...plain, role: "single", password: "p@s/s" },
        address: { host: "[::1]", port: 7000 },
      },
    ],
    [
      "redis+sentinel://a:1,b/mymaster",
      {
        kind: "sentinel",
        access: { ...plain, role: "primary" },
        sentinels: [
          { host: "a", port: 1 },
          { host: "b", port: 26379 },
        ],
        sentinelAccess: { ...plain, role: "sentinel" },
        name: "mymaster",
      },
    ],
    [
      "rediss+sentinel://u:p@a/my.name/3?sentinel=:s%3Fx@y",
      {
        kind: "sentinel",
        access: { role: "primary", tls: true, user: "u", password: "p", database: 3 },
        sentinels: [{ host: "a", port: 26379 }],
        sentinelAccess: { role: "sentinel", tls: true, user: "", password: "s?x@y", database: 0 },
        name: "my.name",
      },
    ],
    [
      "rediss+cluster://u:p@a:7001,b,[fe80::1]:7003",
      {
        kind: "cluster",
        access: { role: "cluster", tls: true, user: "u", password: "p", database: 0 },
        seeds: [
          { host: "a", port: 7001 },
          { host: "b", port: 6379 },
          { host: "[fe80::1]", port: 7003 },
        ],
      },
    ],
  ])("%s is read", (url, deployment) => {
    expect(parseDeployment(url)).toEqual(deployment);
  });

  it("decodes a user and a password to bytes", () => {
    const deployment = parseDeployment("redis://:%C3%B6@h");
    expect(deployment).toMatchObject({ access: { password: "\xc3\xb6" } });
  });

  it.each([
    ["localhost", "redis://"],
    ["http://:s3cret@h", "redis://"],
    ["redis://:s3cret@", "HOST[:PORT]"],
    ["redis://:s3cret@h:0", "HOST[:PORT]"],
    ["redis://:s3cret@h:65536", "HOST[:PORT]"],
    ["redis://:s3cret@h:1x", "HOST[:PORT]"],
    ["redis://:s3cret@h o", "HOST[:PORT]"],
    ["redis://:s3cret@h/x", "/DATABASE"],
    ["redis://:s3cret@h/1/2", "/DATABASE"],
    ["redis://:s3cret@h?x=1", "no ?"],
    ["redis://:s3cret@a,b", "one HOST"],
    ["redis://s3cret@h", "USER:PASSWORD"],
    ["redis://s3cret:@h", "USER:PASSWORD"],
    ["redis://:s3cret%4@h", "USER:PASSWORD"],
    ["redis://:s3cret%zz@h", "USER:PASSWORD"],
    ["redis+sentinel://:s3cret@a,b", "/NAME"],
    ["redis+sentinel://:s3cret@a,/m", "HOST[:PORT]"],
    ["redis+sentinel://:s3cret@a/m/x", "/NAME"],
    ["redis+sentinel://:s3cret@a/m/1/2", "/NAME"],
    ["redis+sentinel://a/m?sentinel=s3cret", "?sentinel=USER:PASSWORD"],
    ["redis+sentinel://a/m?password=:s3cret", "?sentinel=USER:PASSWORD"],
    ["redis+cluster://:s3cret@a/1", "no database"],
    ["redis+cluster://:s3cret@a,,b", "HOST[:PORT]"],
  ])("%s is refused with what was expected, and shows no password", (url, expected) => {
    const problem = parseDeployment(url);
    expect(problem).toMatchObject({ expected: expect.stringContaining(expected) });
    expect(JSON.stringify(problem)).not.toContain("s3cret");
  });
});

it("connections that differ in anything have different pools", () => {
  const access = { role: "single", tls: false, user: "u", password: "p", database: 0 } as const;
  const address: Address = { host: "h", port: 1 };
  const names = [
    poolName(access, address),
    poolName({ ...access, role: "primary" }, address),
    poolName({ ...access, role: "sentinel" }, address),
    poolName({ ...access, tls: true }, address),
    poolName({ ...access, user: "v" }, address),
    poolName({ ...access, database: 1 }, address),
    poolName(access, { host: "i", port: 1 }),
    poolName(access, { host: "h", port: 2 }),
    // No name of a user looks like another address or database.
    poolName({ ...access, user: "1:u" }, address),
    poolName({ ...access, user: "u:1" }, address),
    poolName(access, { host: "[::1]", port: 1 }),
    poolName({ ...access, user: "1:u" }, { host: "[::1]", port: 1 }),
  ];
  expect(new Set(names).size).toBe(names.length);
});
