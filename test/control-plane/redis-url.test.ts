// The control plane and the gateways each parse SLUICE_REDIS_URL: both accept the same URLs and read them the same way.

import { describe, expect, it } from "vitest";
import { parseRedisUrl, type RedisDeployment } from "../../control-plane/src/redis/redis-url.ts";
import { type Address, parseDeployment } from "../../limiter/src/protocol/redis-url.ts";

const urls = [
  "redis://h",
  "rediss://app:p%40ss%3a%2F%25@redis-1.example:6380/15",
  "redis://:p@s/s@[::1]:7000/",
  "redis://:p@ss@h",
  "redis://u:p?x@h",
  "redis://h/",
  "redis+sentinel://a:1,b/mymaster",
  "redis+sentinel://a/m/0?",
  "redis+sentinel://u:p@a,b:7/m/3?sentinel=:s",
  "rediss+sentinel://u:p@a/my.name/3?sentinel=:s%3Fx@y",
  "redis+cluster://a",
  "redis+cluster://a/0",
  "rediss+cluster://u:p@a:7001,b,[fe80::1]:7003",
];

const refused = [
  "",
  "localhost",
  "redis:h",
  "http://:s3cret@h",
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

/** @returns what the gateway reads, in the control plane's form */
function asGatewaysRead(url: string): RedisDeployment | object {
  const deployment = parseDeployment(url);
  if ("expected" in deployment) return deployment;
  const { tls, user, password, database } = deployment.access;
  const plain = (address: Address) => ({ ...address, host: address.host.replace(/^\[(.*)\]$/, "$1") });
  const common = { kind: deployment.kind, tls, user, password, database };
  if (deployment.kind === "single") return { ...common, addresses: [plain(deployment.address)] };
  if (deployment.kind === "cluster") return { ...common, addresses: deployment.seeds.map(plain) };
  const { sentinels, sentinelAccess, name } = deployment;
  const sentinel = { user: sentinelAccess.user, password: sentinelAccess.password };
  return { ...common, addresses: sentinels.map(plain), name, sentinel };
}

describe("SLUICE_REDIS_URL", () => {
  it.each(urls)("%s is read alike by the control plane and the gateways", (url) => {
    const deployment = parseRedisUrl(url);
    expect(deployment).toHaveProperty("addresses");
    expect(deployment).toEqual(asGatewaysRead(url));
  });

  it.each(refused)("%s is refused by both, in the same words, and shows no password", (url) => {
    const problem = parseRedisUrl(url);
    expect(problem).toEqual(asGatewaysRead(url));
    expect(problem).toHaveProperty("expected");
    expect(JSON.stringify(problem)).not.toContain("s3cret");
  });

  it("has a password in UTF-8, and refuses invalid UTF-8", () => {
    expect(parseRedisUrl("redis://:%C3%B6@h")).toMatchObject({ password: "ö" });
    expect(parseRedisUrl("redis://:%ff@h")).toHaveProperty("expected");
  });
});
