// The fast path (gateway/src/decide/fast-path.ts) decides as the path for all requests does. A request that shows the debugging secret
// takes the other path, and so the same policy is asked both ways, each way with a key of its own.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, ask } from "../fixtures/clients/requests.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { RedisServer } from "../fixtures/servers/redis-server.ts";
import { until } from "../fixtures/until.ts";

const secret = "a secret of the operator";
const kinds: Readonly<Record<string, object>> = {
  "token-bucket": { quota: 10, window: "1h", burst: 5 },
  "fixed-window": { quota: 4, window: "366d" },
  "sliding-window": { quota: 4, window: "10h" },
  "sliding-log": { quota: 4, window: "10h" },
  // A place in the queue is free each ms.
  "leaky-bucket": { quota: 1000, window: "1s", burst: 1 },
  concurrency: { quota: 4, ttl: "10s" },
};
const scopes: Readonly<Record<string, object>> = {
  node: { scope: "node" },
  exact: { scope: "cluster" },
  leased: { scope: "cluster", consistency: "leased" },
  "without a store": { scope: "cluster", onStoreFailure: "deny" },
};

const limits = [
  ...Object.entries(kinds).map(([algorithm, limit]) => [algorithm, [{ name: "only", algorithm, ...limit }]] as const),
  [
    "two limits",
    [
      { name: "many", algorithm: "fixed-window", quota: 9, window: "366d" },
      { name: "few", algorithm: "token-bucket", quota: 3, window: "2h" },
    ],
  ] as const,
];

/** Policies of one scope; each has a path of its own. */
const policiesOf = (scope: string) =>
  limits.flatMap(([name, own], i) =>
    ["skip", "deny", "shared"].map((onMissingKey) => ({
      name: `p${i}-${onMissingKey}`,
      match: { paths: [`/p${i}-${onMissingKey}`] },
      key: ["header:x-user", "ip"],
      onMissingKey,
      limits: own,
      ...scopes[scope],
      description: name,
    })),
  );

describe.each(Object.keys(scopes))("a policy of store %s", (scope) => {
  let redis: RedisServer;
  let gateway: LoneGateway;

  beforeAll(async () => {
    redis = new RedisServer(await freePort());
    // Without a store, there is a Redis address and nobody behind it.
    if (scope !== "without a store") await redis.start();
    gateway = await LoneGateway.start({
      policies: policiesOf(scope),
      env: { SLUICE_DEBUG_SECRET: secret, SLUICE_REDIS_URL: redis.url },
    });
  });
  afterAll(async () => {
    await gateway?.stop();
    await redis?.stop();
  });

  it.each(limits.map(([name], i) => [name, i] as const))(
    "is decided the same by both paths: %s",
    async (algorithm, i) => {
      for (const onMissingKey of ["skip", "deny", "shared"]) {
        const path = `/p${i}-${onMissingKey}`;
        const seen = { fast: [] as object[], other: [] as object[] };
        for (let n = 0; n < 7; n++) {
          for (const [way, user, shown] of [
            ["fast", "ann", {}],
            ["other", "bob", { "x-sluice-debug": secret }],
          ] as const) {
            // Otherwise it depends on the machine whether the place of the request before is free again.
            if (algorithm === "leaky-bucket") await sleep(3);
            const send = () => ask(`${gateway.url}${path}`, { headers: { "x-user": user, ...shown } });
            const answer = algorithm === "concurrency" ? await whenSlotsAreFree(send) : await send();
            expect(answer.headers["x-sluice-debug"] === undefined).toBe(way === "fast");
            seen[way].push(comparable(answer));
          }
        }
        expect(seen.fast).toEqual(seen.other);
        // A key that is missing, and one that is ambiguous.
        const odd = await Promise.all(
          [{}, { "x-sluice-debug": secret }].map((shown) => ask(`${gateway.url}${path}`, { headers: shown })),
        );
        if (onMissingKey !== "shared") expect(comparable(odd[0] as Answer)).toEqual(comparable(odd[1] as Answer));
        if (onMissingKey === "deny") expect(odd[0]?.status).toBe(403);
      }
    },
  );
});

describe("policies that count by all that a request has", () => {
  const keys = [
    ["ip"],
    ["ip/16/48"],
    ["path"],
    ["host"],
    ["method"],
    ["header:x-user"],
    ["header:authorization"],
    ["header:x-none", "ip"],
    ["cookie:sid"],
    ["query:user"],
    ["query:empty"],
    ["form:user", "form:other"],
    ["form:none", "form:user"],
    ["jwt:sub", "jwt:org"],
    ["var:request_id", "const:a"],
    ["var:http_x_user", "query:user"],
  ];
  let gateway: LoneGateway;

  beforeAll(async () => {
    gateway = await LoneGateway.start({
      policies: keys.map((key, i) => ({
        name: `p${`${i}`.padStart(2, "0")}`,
        match: { headers: { "x-met": ["all", `${i}`] } },
        key,
        // So that one that cannot be counted does not keep the others from being met.
        mode: "shadow",
        onMissingKey: "shared",
        limits: [{ algorithm: "fixed-window", quota: 1_000, window: "1d" }],
      })),
      env: { SLUICE_DEBUG_SECRET: secret },
    });
  });
  afterAll(() => gateway?.stop());

  it.each([
    ["usual values", "ann", "bob%40example.com"],
    ["long values", "a".repeat(900), "b".repeat(700)],
    ["ambiguous values", "ann", "bob&user=eve"],
  ])(
    "read the same of a request with %s when it meets all of them as when it meets one",
    async (_, header, argument) => {
      const token = `x.${Buffer.from('{"sub":"carl","org":7}').toString("base64url")}.x`;
      const linesFor = async (met: string) => {
        const { headers } = await ask(`${gateway.url}/some/path?user=${argument}&empty=`, {
          method: "POST",
          headers: {
            "x-met": met,
            "x-user": header,
            authorization: `Bearer ${token}`,
            cookie: `sid=${header}`,
            "content-type": "application/x-www-form-urlencoded",
            "x-sluice-debug": secret,
          },
          body: `other=1&user=${argument}`,
        });
        return (headers["x-sluice-debug"] ?? "")
          .split(", ")
          .filter((line) => line.startsWith("default/"))
          .map((line) =>
            line
              .split("; ")
              .slice(0, 4)
              .join("; ")
              .replace(/[0-9a-f]{32}/, "REQUEST"),
          );
      };
      const alone = [];
      for (const i of keys.keys()) alone.push(...(await linesFor(`${i}`)));
      expect(alone).toHaveLength(keys.length);
      expect(await linesFor("all")).toEqual(alone);
    },
  );
});

/** Slots are refunded after the response has been sent, so a request that comes soon may find those of the one before it taken. */
async function whenSlotsAreFree(send: () => Promise<Answer>): Promise<Answer> {
  let answer: Answer | undefined;
  await until("all slots are free", async () => {
    answer = await send();
    const remaining = answer.headers["x-ratelimit-remaining"];
    // Without a store, there are no slots.
    return remaining === undefined || remaining === "3";
  });
  return answer as unknown as Answer;
}

/** What a client is told, without the seconds, which pass from one request to the next. */
function comparable({ status, headers, body }: Answer): object {
  const {
    "ratelimit-policy": policy,
    ratelimit = "",
    "x-ratelimit-limit": limit,
    "x-ratelimit-remaining": left,
  } = headers;
  return {
    status,
    policy,
    ratelimit: ratelimit.replace(/;t=\d+/g, ""),
    limit,
    left,
    waits: headers["retry-after"] !== undefined,
    problem: status === 429 ? body.replace(/\d+ s\./, "") : "",
  };
}
