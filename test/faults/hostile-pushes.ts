// Somebody who is no control plane pushes to a gateway, and somebody who is no gateway comes to the control plane.

import { setTimeout as sleep } from "node:timers/promises";
import { Load } from "../fixtures/clients/load.ts";
import { ask } from "../fixtures/clients/requests.ts";
import { openPushSocket } from "../fixtures/clients/simulated-gateway.ts";
import { frameText } from "../fixtures/documents/loaded-state.ts";
import { mostAtOnce } from "../fixtures/measures/bound.ts";
import { atLeast, atMost, type Fact, fact } from "../fixtures/measures/fact.ts";
import { freePort } from "../fixtures/servers/free-ports.ts";
import { LoneGateway } from "../fixtures/servers/lone-gateway.ts";
import { PushServer } from "../fixtures/servers/push-server.ts";
import { adminToken, type System } from "../fixtures/servers/system.ts";
import { until } from "../fixtures/until.ts";
import type { Fault } from "./fault.ts";
import { observe, staleUnits, startRedis, startSystem } from "./scenario.ts";

const epoch = "00000000-0000-4000-8000-000000000016";
const edition = "of the test";
const quota = 100;
const workers = 2;
const mebibyte = 1024 * 1024;
/** A gateway takes no longer message than 64 MB. */
const oversize = 70 * mebibyte;

/** The gateway answers with one of the first two, or hangs up. */
type Reaction = "refused" | "resync" | "hangs up";

interface Attack {
  readonly what: string;
  readonly reaction: Reaction;
  /** Each is one message; or what is to be done instead. */
  readonly says: (held: Held) => readonly (string | ((server: PushServer) => Promise<void> | void))[];
}

/** The last good state: the quota of policy marker is that of the revision. */
interface Held {
  readonly revision: number;
}

const policyOf = (name: string, limit: object) => ({
  app: "default",
  document: { name, match: { paths: [`/${name}`] }, limits: [limit] },
});
const markerOf = (revision: number) =>
  policyOf("marker", { algorithm: "fixed-window", quota: revision, window: "366d" });
const policiesOf = (revision: number) => [
  policyOf("held", { algorithm: "token-bucket", quota, window: "1s" }),
  markerOf(revision),
  ...Array.from({ length: 200 }, (_, i) =>
    policyOf(`other-${i}`, { algorithm: "fixed-window", quota: 5, window: "1d" }),
  ),
];
const policyCount = policiesOf(0).length;

/** @param changes replace what a control plane would say */
function snapshotOf(revision: number, changes: object = {}): string {
  const policies = policiesOf(revision);
  return frameText({ type: "snapshot", epoch, revision, format: 1, proof: "none", edition, policies, ...changes });
}

function deltaFrom({ revision: held }: Held, changes: object = {}): string {
  const [revision, from] = [held + 1, { epoch, revision: held, edition }];
  const policies = [markerOf(revision)];
  const head = { epoch, revision, format: 1, proof: "none", edition, from, policyCount };
  return frameText({ type: "delta", ...head, policies, ...changes });
}

/** Cuts a text where a line ends, within a line, and just before its end. */
const truncated = (text: string) => [
  text.slice(0, 40),
  text.slice(0, text.indexOf("\n") + 1),
  text.slice(0, text.lastIndexOf("\n", text.length / 2) + 1),
  text.slice(0, text.length / 2),
  text.slice(0, -3),
];

const attacks: readonly Attack[] = [
  {
    what: "truncated snapshots",
    reaction: "refused",
    says: ({ revision }) => truncated(snapshotOf(revision + 1)),
  },
  { what: "truncated deltas", reaction: "refused", says: (held) => truncated(deltaFrom(held)) },
  {
    what: "deltas from another revision, history or edition",
    reaction: "resync",
    says: ({ revision }) =>
      [
        { epoch, revision: revision - 1, edition },
        { epoch, revision: revision + 1, edition },
        { epoch: "another", revision, edition },
        { epoch, revision, edition: "another" },
        { epoch, revision },
        "nothing",
      ].map((from) => deltaFrom({ revision }, { from })),
  },
  {
    what: "deltas with a wrong policyCount",
    reaction: "resync",
    says: (held) => [policyCount - 1, policyCount + 1, 0].map((count) => deltaFrom(held, { policyCount: count })),
  },
  {
    what: "snapshots and deltas of an older revision",
    reaction: "refused",
    says: (held) => [snapshotOf(held.revision - 1), deltaFrom(held, { revision: held.revision - 1 })],
  },
  {
    what: "entries twice",
    reaction: "refused",
    says: (held) => {
      const twice = [...policiesOf(held.revision + 1), markerOf(held.revision + 2)];
      return [
        snapshotOf(held.revision + 1, { policies: twice }),
        deltaFrom(held, { policies: [markerOf(1), markerOf(2)] }),
      ];
    },
  },
  {
    what: "invalid policies, formats and revisions",
    reaction: "refused",
    says: (held) => [
      deltaFrom(held, { policies: [policyOf("marker", { algorithm: "no-such", quota: 1, window: "1s" })] }),
      deltaFrom(held, { policies: [null, 7, "text"] }),
      deltaFrom(held, { gone: [{ app: 7 }] }),
      snapshotOf(held.revision + 1, { format: 2 }),
      snapshotOf(held.revision + 1, { epoch: "" }),
      ...[-1, 0.5, 2 ** 53, "7", null].map((revision) => snapshotOf(held.revision + 1, { revision })),
    ],
  },
  {
    what: "garbage",
    reaction: "refused",
    says: () => [
      "",
      "no JSON",
      "{}",
      "[]",
      "null",
      '{"type":"constructor"}',
      '{"type":"snapshot",',
      `{"type":"delta",${"\n".repeat(1000)}`,
      "[".repeat(100_000),
      "x".repeat(mebibyte),
    ],
  },
  {
    what: "more than 64 MB: one frame, many frames, a length of 2^63",
    reaction: "hangs up",
    says: () => [
      ({ socket }) => socket?.send("x".repeat(oversize)),
      async (server) => {
        const { socket } = server;
        const part = "x".repeat(65_536);
        for (let sent = 0; sent < oversize && socket === server.socket; sent += part.length) {
          await new Promise((resolve) => socket?.send(part, { fin: false }, resolve));
        }
      },
      (server) => server.writeRaw(Uint8Array.of(0x81, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)),
    ],
  },
  {
    what: "sockets that stop in the middle of a message, at once and after silence",
    reaction: "hangs up",
    says: ({ revision }) =>
      [0, 2_000].map((silenceMs) => async ({ socket }) => {
        const text = snapshotOf(revision + 1);
        socket?.send(text.slice(0, text.length / 2), { fin: false });
        await sleep(silenceMs);
        socket?.terminate();
      }),
  },
  {
    what: "binary messages, and bytes that are no frames",
    reaction: "hangs up",
    says: () => [
      ({ socket }) => socket?.send(Buffer.from([1, 2, 3])),
      (server) => server.writeRaw(Uint8Array.of(0xf1, 1, 0x61)),
      (server) => server.writeRaw(Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n")),
    ],
  },
];

/** A gateway whose control plane is the test, with a load on it. */
class Attacked {
  readonly #server: PushServer;
  readonly #gateway: LoneGateway;
  readonly #load: Load;
  readonly #facts: Fact[] = [];
  #revision = 100;

  private constructor(server: PushServer, gateway: LoneGateway) {
    this.#server = server;
    this.#gateway = gateway;
    this.#load = new Load([`${gateway.url}/held`], 2 * quota, ["all"]);
  }

  static async start(stack: AsyncDisposableStack, upstreamUrl: string): Promise<Attacked> {
    const port = await freePort();
    const server = new PushServer(port);
    stack.defer(() => server.stop());
    const env = { SLUICE_CONTROL_URL: `http://127.0.0.1:${port}`, SLUICE_UPSTREAM: upstreamUrl };
    const gateway = await LoneGateway.start({ workers, env });
    stack.defer(() => gateway.stop());
    const attacked = new Attacked(server, gateway);
    stack.defer(() => attacked.#load.stop());
    await server.pushGood(snapshotOf(attacked.#revision), epoch);
    return attacked;
  }

  /** Attacks it, and pushes a good delta after each attack. */
  async attack(): Promise<void> {
    this.#load.start();
    for (const one of attacks) this.#facts.push(await this.#play(one));
    await this.#load.stop();
    this.#facts.push(await this.#restart());
  }

  /** What it has on its disk is the last good state. */
  async #restart(): Promise<Fact> {
    this.#server.received = [];
    await this.#gateway.restart();
    const said = () => this.#server.received.find(({ type }) => type === "hello");
    await until("it says hello", () => said() !== undefined);
    const told = [...new Set(await this.#limitsAt("/marker"))].join(", ");
    const expected = `revision ${this.#revision}, limit ${this.#revision}`;
    const seen = `revision ${said()?.revision}, limit ${told}`;
    return fact("what it has after a restart of nginx", expected, seen, seen === expected);
  }

  async #play({ what, reaction, says }: Attack): Promise<Fact> {
    const expected = `${reaction}, nothing changed, next delta applied`;
    const count = says({ revision: this.#revision }).length;
    for (let i = 0; i < count; i++) {
      const saying = says({ revision: this.#revision })[i] as string | ((server: PushServer) => Promise<void>);
      const seen = await this.#say(saying, reaction).catch((error: Error) => error.message);
      if (seen !== expected) return fact(`${what} (${i + 1} of ${count})`, expected, seen, false);
    }
    return fact(`${count} ${what}`, expected, expected, true);
  }

  async #say(saying: string | ((server: PushServer) => Promise<void> | void), reaction: Reaction): Promise<string> {
    const server = this.#server;
    const { socket } = server;
    server.received = [];
    if (typeof saying === "string") socket?.send(saying);
    else await saying(server);
    const ofType = (type: string) => server.received.find((message) => message.type === type);
    let seen: string = reaction;
    if (reaction === "hangs up") {
      await until("the gateway comes again", () => server.socket !== socket && ofType("hello") !== undefined);
      const hello = ofType("hello");
      if (hello?.epoch !== epoch || hello.revision !== this.#revision)
        return `came again with ${JSON.stringify(hello)}`;
    } else {
      const answered = () => ofType("refused") ?? ofType("resync") ?? ofType("applied");
      await until("the gateway answers", () => answered() !== undefined || server.socket !== socket);
      seen = answered()?.type ?? "hangs up";
    }
    const told = await this.#limitsAt("/marker");
    const changed = told.every((limit) => limit === this.#revision) ? "nothing changed" : `limits ${told.join(", ")}`;
    const text = deltaFrom({ revision: this.#revision });
    this.#revision += 1;
    const wanted = this.#revision;
    server.socket?.send(text);
    await until("the next delta is applied", () =>
      server.received.some(({ type, revision }) => type === "applied" && revision === wanted),
    );
    const now = await this.#limitsAt("/marker");
    return `${seen}, ${changed}, ${now.every((limit) => limit === wanted) ? "next delta applied" : `limits ${now.join(", ")}`}`;
  }

  /** @returns the limits that several requests were told, which come to several workers */
  async #limitsAt(path: string): Promise<number[]> {
    const answers = await Promise.all(Array.from({ length: 4 }, () => ask(`${this.#gateway.url}${path}`)));
    return answers.map(({ headers }) => Number(headers["x-ratelimit-limit"]));
  }

  facts(): Fact[] {
    const { served, broken } = this.#load;
    const admitted = served.filter(({ status }) => status === 200);
    const told = [...new Set(served.map(({ limit }) => limit))];
    const seconds = ((served.at(-1)?.answeredAtMs ?? 0) - (served[0]?.sentAtMs ?? 0)) / 1000;
    return [
      ...this.#facts,
      atMost(
        "its answers other than 200 and 429",
        0,
        served.filter(({ status }) => status !== 200 && status !== 429).length,
      ),
      atMost("its clients' connections that broke", 0, broken),
      fact("limit that it told", `${quota}`, told.join(", "), told.length === 1 && told[0] === quota),
      atMost(`admitted by it, of ${quota} + ${quota}/s · t`, quota + staleUnits(quota), mostAtOnce(admitted, quota)),
      atLeast("admitted by it, of what the limit allows", 80, (admitted.length / (quota * seconds)) * 100, " %"),
    ];
  }
}

const triesOfEach = 50;
/** Whoever comes with one of these is no gateway; an absent token is an empty one to this client. */
const tokens = { none: "", wrong: "a-wrong-token-of-gateways", "an admin's": adminToken } as const;

/** @returns by token, the HTTP statuses that were answered to those who wanted a push socket */
async function comeUninvited({ controlUrl }: System): Promise<Record<string, string>> {
  const seen: Record<string, string> = {};
  for (const [whose, token] of Object.entries(tokens)) {
    const tries = Array.from({ length: triesOfEach }, () =>
      openPushSocket(controlUrl, token).then(
        (socket) => {
          socket.terminate();
          return "101";
        },
        (error: Error) => /\b\d{3}\b/.exec(error.message)?.[0] ?? error.message,
      ),
    );
    seen[whose] = [...new Set(await Promise.all(tries))].join(", ");
  }
  return seen;
}

const hostile: Fault = {
  number: 16,
  name: "malformed, truncated, oversize, older and unauthenticated pushes",
  async run(stack) {
    const redis = await startRedis(stack);
    const system = await startSystem(stack, { gateways: 2, env: { SLUICE_REDIS_URL: redis.url } });
    const attacked = await Attacked.start(stack, system.upstreamUrl);
    let uninvited: Record<string, string> = {};
    let connected = "";
    return observe(stack, {
      system,
      decides: "counter",
      async inject() {
        const coming = comeUninvited(system);
        await attacked.attack();
        uninvited = await coming;
        const { gateways } = JSON.parse((await system.api("GET", "/gateways")).body);
        connected = gateways
          .map(({ id, alarm }: { id: string; alarm: string | null }) => `${id} ${alarm ?? "well"}`)
          .join(", ");
        return undefined;
      },
      moreFacts: () => [
        ...attacked.facts(),
        ...Object.entries({ none: "401", wrong: "401", "an admin's": "403" }).map(([whose, status]) =>
          fact(
            `${triesOfEach} push sockets, token: ${whose}`,
            status,
            uninvited[whose] ?? "",
            uninvited[whose] === status,
          ),
        ),
        fact(
          "gateways that the control plane knows",
          "gateway-1 well, gateway-2 well",
          connected,
          connected === "gateway-1 well, gateway-2 well",
        ),
      ],
    });
  },
};

export const faults = [hostile];
