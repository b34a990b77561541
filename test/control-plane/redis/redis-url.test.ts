// The control plane reads SLUICE_REDIS_URL by the gateways' parser, and has it in the form that ioredis needs.

import { describe, expect, it } from "vitest";
import { parseRedisUrl } from "../../../control-plane/src/redis/redis-url.ts";

const at = (...addresses: string[]) =>
  addresses.map((address) => {
    const [, host, port] = /^(.*):(\d+)$/.exec(address) as RegExpExecArray;
    return { host, port: Number(port) };
  });
const anybody = { tls: false, user: "", password: "", database: 0 };
const sentinel = { user: "", password: "" };

const urls: readonly (readonly [string, object])[] = [
  ["redis://h", { kind: "single", ...anybody, addresses: at("h:6379") }],
  [
    "rediss://app:p%40ss%3a%2F%25@redis-1.example:6380/15",
    {
      kind: "single",
      tls: true,
      user: "app",
      password: "p@ss:/%",
      database: 15,
      addresses: at("redis-1.example:6380"),
    },
  ],
  ["redis://:p@s/s@[::1]:7000/", { kind: "single", ...anybody, password: "p@s/s", addresses: at("::1:7000") }],
  ["redis://:p@ss@h", { kind: "single", ...anybody, password: "p@ss", addresses: at("h:6379") }],
  ["redis://u:p?x@h", { kind: "single", ...anybody, user: "u", password: "p?x", addresses: at("h:6379") }],
  ["redis://:\u00f6%C3%B6@h", { kind: "single", ...anybody, password: "\u00f6\u00f6", addresses: at("h:6379") }],
  ["redis://h/", { kind: "single", ...anybody, addresses: at("h:6379") }],
  [
    "redis+sentinel://a:1,b/mymaster",
    { kind: "sentinel", ...anybody, addresses: at("a:1", "b:26379"), name: "mymaster", sentinel },
  ],
  ["redis+sentinel://a/m/0?", { kind: "sentinel", ...anybody, addresses: at("a:26379"), name: "m", sentinel }],
  [
    "redis+sentinel://u:p@a,b:7/m/3?sentinel=:s",
    {
      kind: "sentinel",
      tls: false,
      user: "u",
      password: "p",
      database: 3,
      addresses: at("a:26379", "b:7"),
      name: "m",
      sentinel: { user: "", password: "s" },
    },
  ],
  [
    "rediss+sentinel://u:p@a/my.name/3?sentinel=:s%3Fx@y",
    {
      kind: "sentinel",
      tls: true,
      user: "u",
      password: "p",
      database: 3,
      addresses: at("a:26379"),
      name: "my.name",
      sentinel: { user: "", password: "s?x@y" },
    },
  ],
  ["redis+cluster://a", { kind: "cluster", ...anybody, addresses: at("a:6379") }],
  ["redis+cluster://a/0", { kind: "cluster", ...anybody, addresses: at("a:6379") }],
  [
    "rediss+cluster://u:p@a:7001,b,[fe80::1]:7003",
    {
      kind: "cluster",
      tls: true,
      user: "u",
      password: "p",
      database: 0,
      addresses: at("a:7001", "b:6379", "fe80::1:7003"),
    },
  ],
];

const refused = [
  "",
  "localhost",
  "redis:h",
  "http://:s3cret@h",
  "constructor://:s3cret@h",
  "redis+x://:s3cret@h",
  "redis://:s3cret@",
  "redis://:s3cret@h:0",
  "redis://:s3cret@h:65536",
  "redis://:s3cret@h:1x",
  "redis://:s3cret@h:",
  "redis://:s3cret@h o",
  "redis://:s3cret@[::1",
  "redis://:s3cret@h/x",
  "redis://:s3cret@h/65536",
  "redis://:s3cret@h/1/2",
  "redis://:s3cret@h?x=1",
  "redis://:s3cret@a,b",
  "redis://s3cret@h",
  "redis://s3cret:@h",
  "redis://:s3cret%4@h",
  "redis://:s3cret%zz@h",
  "redis+sentinel://:s3cret@a,b",
  "redis+sentinel://:s3cret@a,/m",
  "redis+sentinel://:s3cret@a/m/x",
  "redis+sentinel://:s3cret@a/m/1/2",
  "redis+sentinel://a/m?sentinel=s3cret",
  "redis+sentinel://a/m?password=:s3cret",
  "redis+cluster://:s3cret@a/1",
  "redis+cluster://:s3cret@a,,b",
];

describe("SLUICE_REDIS_URL", () => {
  it.each(urls)("%s is read", (url, deployment) => {
    expect(parseRedisUrl(url)).toEqual(deployment);
  });

  it.each(refused)("%s is refused, and the error shows no password", (url) => {
    const problem = parseRedisUrl(url);
    expect(problem).toHaveProperty("expected");
    expect(JSON.stringify(problem)).not.toContain("s3cret");
  });

  it("has a password in UTF-8, and refuses invalid UTF-8", () => {
    expect(parseRedisUrl("redis://:%C3%B6@h")).toMatchObject({ password: "ö" });
    expect(parseRedisUrl("redis://:%ff@h")).toHaveProperty("expected");
  });
});
