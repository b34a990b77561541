// Sends request heads as bytes to a gateway whose policies read everything in a request. The limiter must cause no 5xx and no
// Lua error, no worker may end, answers must be HTTP, and spellings that nginx reads alike must share a counter.

import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { roomMs } from "../fixtures/until.ts";
import { GatewayWatch } from "./gateway-watch.ts";
import { type Exchange, exchanges } from "./request-heads.ts";
import { type Spelling, spellings } from "./spellings.ts";
import { Fault, type Fuzzer, type Surroundings, type Target } from "./target.ts";

/** A connection that is silent for so long waits for bytes that will not come. */
const quietMs = 150;
const betweenPiecesMs = 10;
/** Statuses of nginx itself: an unknown method or encoding, or an unknown version of HTTP. */
const ofNginx = [501, 505];

type Input =
  | { readonly sends: "heads"; readonly exchanges: readonly Exchange[] }
  | { readonly sends: "spellings"; readonly spelling: (unique: string) => Spelling };

export const heads: Target = { name: "heads", worker: "gateway", start };

async function start({ stack, watch }: Surroundings): Promise<Fuzzer<unknown>> {
  const gateway = await LoneGateway.start({ workers: 2, policies });
  stack.defer(() => gateway.stop());
  const watched = new GatewayWatch("the gateway that is asked", gateway.directory);
  watch(watched);
  const port = Number(new URL(gateway.url).port);
  let spelled = 0;
  const fuzzer: Fuzzer<Input> = {
    inputs: fc.oneof(
      { weight: 2, arbitrary: exchanges.map((several): Input => ({ sends: "heads", exchanges: several })) },
      { weight: 1, arbitrary: spellings().map((spelling): Input => ({ sends: "spellings", spelling })) },
    ),
    async play(input) {
      if (input.sends === "heads") {
        const answers = await Promise.all(input.exchanges.map((exchange) => exchanged(port, exchange)));
        for (const [i, answer] of answers.entries()) assess(answer, input.exchanges[i] as Exchange);
      } else {
        spelled += 1;
        await assessSpelling(port, input.spelling(`s${spelled}`));
      }
      watched.look();
    },
    show: (input) =>
      input.sends === "heads"
        ? input.exchanges
            .map(
              ({ bytes, cutAt }) =>
                `${JSON.stringify(bytes.toString("latin1"))}${cutAt === undefined ? "" : ` cut at ${cutAt}`}`,
            )
            .join("\n")
        : JSON.stringify(input.spelling("s0")),
    recover: async () => watched.begun(),
  };
  return fuzzer as Fuzzer<unknown>;
}

const windowed = (name: string, key: readonly string[], document: object = {}) => ({
  name,
  match: { paths: [`/${name}`] },
  key,
  limits: [{ algorithm: "fixed-window", quota: 3, window: "1s" }],
  ...document,
});
/** A policy that only `judgeSpelling` uses. */
const counting = (name: string, key: readonly string[], match: object) => ({
  ...windowed(name, key, { match, onMissingKey: "deny" }),
  limits: [{ algorithm: "fixed-window", quota: 1_000_000, window: "366d" }],
});

const policies = [
  counting("one-path", ["path"], { paths: ["/one/*"] }),
  counting("one-query", ["query:user"], { paths: ["/asked"] }),
  counting("one-host", ["host"], { paths: ["/host"], hosts: ["*.hosts.example"] }),
  counting("one-header", ["header:x-user"], { paths: ["/header-one"] }),
  windowed("ip", ["ip"]),
  windowed("header", ["header:x-user", "header:authorization"], { onMissingKey: "shared" }),
  windowed("cookie", ["cookie:sid", "cookie:__proto__"], { onMissingKey: "shared" }),
  windowed("query", ["query:user"], { onMissingKey: "deny" }),
  windowed("jwt", ["jwt:sub"], { onMissingKey: "shared" }),
  windowed("path-and-host", ["path", "host", "method"], { match: { paths: ["/path/*"] } }),
  windowed("var", ["var:http_x_user", "var:args", "const:c"], { onMissingKey: "shared" }),
  windowed("cost", ["ip"], { cost: { from: "header:x-cost", default: 1, max: 3 } }),
  windowed("bytes", ["ip"], {
    cost: { from: "request-bytes" },
    limits: [{ algorithm: "token-bucket", quota: 100, window: "1s" }],
  }),
  windowed("match", ["header:x-user"], {
    match: { paths: ["/match"], methods: ["GET", "POST"], headers: { "x-plan": ["free", "trial"] } },
    mode: "shadow",
  }),
  windowed("terms", ["header:x-user"], {
    onMissingKey: "shared",
    overrides: [{ key: ["vip*"], limits: [{ algorithm: "fixed-window", quota: 9, window: "1s" }] }],
    exempt: { cidrs: ["10.0.0.0/8"], keys: [["health"]] },
    onLimit: { action: "degrade", response: { status: 403, body: "cheap", headers: ["x-cheap: 1"] } },
  }),
  windowed("re", ["path"], { match: { paths: ["~^/re/([a-z]|[0-9])*$", "~/a{1,20}b?c*$"] } }),
  windowed("log", ["cookie:sid"], {
    match: { paths: ["/cookie", "/ip"] },
    limits: [
      { name: "log", algorithm: "sliding-log", quota: 4, window: "1s" },
      { name: "block", algorithm: "sliding-window", quota: 5, window: "1s" },
      { name: "slots", algorithm: "concurrency", quota: 2, ttl: "1s" },
    ],
    onMissingKey: "shared",
    onLimit: { action: "tag", header: "x-over-limit: 1" },
  }),
  windowed("line", ["query:user"], {
    limits: [{ algorithm: "leaky-bucket", quota: 100, window: "1s", burst: 3 }],
    match: { paths: ["/query"] },
  }),
];

/** @returns everything that came until the connection is closed or silent */
async function exchanged(port: number, { bytes, cutAt }: Exchange, silentMs = quietMs): Promise<Buffer> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  const parts: Buffer[] = [];
  let receivedAtMs = performance.now();
  let closed = false;
  socket.on("data", (part) => {
    parts.push(part);
    receivedAtMs = performance.now();
  });
  // nginx closes a connection that it does not want to read.
  socket.on("error", () => undefined);
  socket.on("close", () => {
    closed = true;
  });
  const cut = cutAt === undefined ? bytes.length : cutAt % (bytes.length + 1);
  socket.write(bytes.subarray(0, cut));
  if (cut < bytes.length) {
    await sleep(betweenPiecesMs);
    socket.write(bytes.subarray(cut));
  }
  while (!closed && performance.now() - receivedAtMs < silentMs) await sleep(5);
  socket.destroy();
  return Buffer.concat(parts);
}

const statusLine = /^HTTP\/1\.[01] (\d{3})(?: [\x20-\x7e]*)?$/;
const headerLine = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*$/;
const ownHeaders = /^(ratelimit|ratelimit-policy|x-ratelimit-\w+|retry-after|content-length|content-type):/i;

/** A line like this requests an answer without a head, as HTTP was before it had versions. */
const withoutVersion = /^\s*[A-Z_-]+ +[^ \r\n]+ *\r?$/m;

/** Checks the answers as far as they came: a client that hangs up gets no more of them. */
function assess(answer: Buffer, { bytes }: Exchange): void {
  let rest = answer.toString("latin1");
  const isOldest = () => !rest.startsWith("HTTP/1");
  const asksForNoBody = bytes.includes("HEAD");
  while (rest !== "" && !isOldest()) {
    const end = rest.indexOf("\r\n\r\n");
    if (end < 0) return;
    const [first = "", ...lines] = rest.slice(0, end).split("\r\n");
    const status = Number(statusLine.exec(first)?.[1]);
    if (Number.isNaN(status)) throw new Fault(`answered with the line ${JSON.stringify(first)}`);
    if (status >= 500 && !ofNginx.includes(status)) throw new Fault(`answered ${status}`);
    const odd = lines.find((line) => !headerLine.test(line));
    if (odd !== undefined) throw new Fault(`answered with the header ${JSON.stringify(odd)}`);
    const own = lines.flatMap((line) => ownHeaders.exec(line)?.[1]?.toLowerCase() ?? []);
    const twice = own.find((name, i) => own.indexOf(name) !== i);
    if (twice !== undefined) throw new Fault(`answered with ${twice} twice`);
    // It is not worth finding out which of several requests was the HEAD.
    if (asksForNoBody) return;
    const behind = bodyEnd(rest, end + 4, status, lines);
    if (behind === undefined) return;
    rest = rest.slice(behind);
  }
  if (rest !== "" && !withoutVersion.test(bytes.toString("latin1"))) {
    throw new Fault(`behind an answer came ${JSON.stringify(rest.slice(0, 80))}`);
  }
}

/** @returns undefined if the body lasts until the connection ends, or did not come completely */
function bodyEnd(text: string, from: number, status: number, lines: readonly string[]): number | undefined {
  if (status < 200 || status === 204 || status === 304) return from;
  if (lines.some((line) => /^transfer-encoding: chunked$/i.test(line))) {
    const end = text.indexOf("\r\n0\r\n\r\n", from - 2);
    return end < 0 ? undefined : end + 7;
  }
  const length = lines.flatMap((line) => /^content-length: (\d+)$/i.exec(line)?.[1] ?? [])[0];
  if (length === undefined) return undefined;
  const end = from + Number(length);
  return end <= text.length ? end : undefined;
}

async function assessSpelling(port: number, { plain, odd }: Spelling): Promise<void> {
  const remaining = async (request: string) => {
    const answer = (
      await exchanged(port, { bytes: Buffer.from(request, "latin1"), cutAt: undefined }, roomMs)
    ).toString("latin1");
    const count = Number(/^X-RateLimit-Remaining: (\d+)\r$/im.exec(answer)?.[1]);
    if (Number.isNaN(count))
      throw new Fault(
        `was not counted: ${JSON.stringify(request)} was answered ${JSON.stringify(answer.slice(0, 200))}`,
      );
    return count;
  };
  const before = await remaining(plain);
  const after = await remaining(odd);
  if (after !== before - 1) throw new Fault(`counted elsewhere: ${before} remained, then ${after}`);
}
