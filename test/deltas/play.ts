// Plays edits against two control planes that share what is stored, and gateways that get their deltas, lose connections, lose and
// repeat frames, change their control plane and restart with what is on disk. Now and then each gateway must have exactly the state
// that a snapshot of everything makes.

import { isDeepStrictEqual } from "node:util";
import type { WebSocket } from "ws";
import { GatewayLink } from "../../control-plane/src/push/gateway-link.ts";
import { PushedState } from "../../control-plane/src/push/pushed-state.ts";
import { candidates } from "../../limiter/src/index/policy-index.ts";
import { protocolVersion } from "../../limiter/src/protocol/push-messages.ts";
import type { PolicyState } from "../../limiter/src/state/policy-state.ts";
import { DeltaGateway } from "./gateway.ts";
import { Random } from "./random.ts";
import { type Size, World } from "./world.ts";

export interface Played {
  edits: number;
  snapshots: number;
  deltas: number;
  /** Deltas that did not fit, and were answered with a wish for a snapshot. */
  misfits: number;
  reconnects: number;
  restarts: number;
  lost: number;
  repeated: number;
  comparisons: number;
}

export interface Play {
  readonly seed: number;
  readonly edits: number;
  readonly size?: Size;
  /** Gateways are compared with a snapshot after so many edits. */
  readonly compareEvery?: number;
  onProgress?(edits: number): void;
}

/** Few policies, so that most edits concern one that there is. */
const small: Size = { names: 6, many: 12 };
/** So many policies that a large change makes a new index. */
export const large: Size = { names: 120, many: 600 };

const gateways = 3;
const nowMs = Date.UTC(2026, 0, 1);
const editions = ["1 tz1 2026", "1 tz1 2026"];

/** @throws Error with the seed and the edit if a gateway has not the state that it must have */
export async function play({ seed, edits, size = small, compareEvery = 50, onProgress }: Play): Promise<Played> {
  const random = new Random(seed);
  const world = new World(random, size);
  const played = {
    edits: 0,
    snapshots: 0,
    deltas: 0,
    misfits: 0,
    reconnects: 0,
    restarts: 0,
    lost: 0,
    repeated: 0,
    comparisons: 0,
  };
  const planes: PushedState[] = [];
  for (const edition of editions) planes.push(await PushedState.from(edition, world.whole(), nowMs));
  const connections = Array.from({ length: gateways }, () => new Connection(new DeltaGateway(), random, played));
  for (const connection of connections) connection.connect(planes, random.below(planes.length));
  try {
    while (played.edits < edits) {
      if (random.below(5_000) === 0) world.newEpoch();
      world.edit();
      played.edits += 1;
      // A control plane reads after each of its own changes, and later what the other has changed.
      for (const place of planes.keys()) {
        if (random.below(3) > 0) await catchUp(planes, place, world);
      }
      if (random.below(2_000) === 0) {
        // It starts anew.
        const place = random.below(planes.length);
        planes[place] = await PushedState.from(editions[place] as string, world.whole(), nowMs);
        for (const connection of connections) if (connection.plane === place) connection.lose();
      }
      for (const connection of connections) connection.turn(planes);
      if (played.edits % compareEvery === 0) {
        await compareAll(world, planes, connections, played);
        onProgress?.(played.edits);
      }
    }
    await compareAll(world, planes, connections, played);
  } catch (error) {
    throw new Error(`seed ${seed}, edit ${played.edits}: ${(error as Error).message}`, { cause: error });
  }
  for (const { gateway } of connections) {
    played.snapshots += gateway.counts.snapshots;
    played.deltas += gateway.counts.deltas;
    played.misfits += gateway.counts.misfits;
    played.restarts += gateway.counts.restarts;
  }
  return played;
}

async function catchUp(planes: PushedState[], place: number, world: World): Promise<void> {
  const plane = planes[place] as PushedState;
  const { epoch, revision } = plane.position;
  if (epoch === `epoch-${world.epoch}` && revision === world.revision) return;
  const changes = world.changesSince(plane.position);
  if (changes !== undefined) await plane.apply(changes, nowMs);
  else planes[place] = await PushedState.from(editions[place] as string, world.whole(), nowMs);
}

async function compareAll(
  world: World,
  planes: PushedState[],
  connections: readonly Connection[],
  played: Played,
): Promise<void> {
  for (const place of planes.keys()) await catchUp(planes, place, world);
  const reference = new DeltaGateway();
  const fresh = await PushedState.from(editions[0] as string, world.whole(), nowMs);
  reference.receive(Buffer.concat(fresh.snapshot().pieces).toString());
  const expected = shownOf(reference.state);
  for (const connection of connections) {
    connection.settle(planes);
    played.comparisons += 1;
    const shown = shownOf(connection.gateway.state);
    if (!isDeepStrictEqual(shown, expected)) throw new Error(`a gateway differs in ${differenceOf(shown, expected)}`);
  }
}

const probes = ["a.example", "b.example", "x.b.example", "c.example", "other.test", "deep.x.b.example"].flatMap(
  (host) => ["/x", "/y", "/x/y/z", "/v12", "/", "/other"].map((path) => ({ host, path })),
);

/** Everything by which a state decides. */
function shownOf(state: PolicyState): Record<string, unknown> {
  const { index, position, policyCount, policiesByName, apps, bans, callers, bannedEverywhere } = state;
  const zonesUsed = new Set<string>();
  for (const ofApp of Object.values(policiesByName)) {
    for (const { written } of Object.values(ofApp))
      if (written?.schedule !== undefined) zonesUsed.add(written.schedule.timezone);
  }
  return {
    position: { epoch: position.epoch, revision: position.revision },
    policyCount,
    policies: Object.fromEntries(Object.entries(policiesByName).map(([app, ofApp]) => [app, { ...ofApp }])),
    apps: { ...apps },
    // A zone that no policy uses any more does no harm.
    zones: [...zonesUsed].sort().map((zone) => [zone, state.zones[zone]]),
    bans: { ...bans.byId },
    networks: bannedEverywhere,
    callers: { ...callers },
    needs: [index.needsHost, index.needsPath],
    candidates: probes.map(({ host, path }) =>
      (index.needsHost || index.needsPath ? candidates(index, host, path) : index.everywhere).map(
        ({ app, name }) => `${app}/${name}`,
      ),
    ),
  };
}

/** The place of the first difference, and the values there. */
function differenceOf(shown: unknown, expected: unknown, path = ""): string {
  if (isObject(shown) && isObject(expected)) {
    for (const key of new Set([...Object.keys(shown), ...Object.keys(expected)])) {
      if (!isDeepStrictEqual(shown[key], expected[key]))
        return differenceOf(shown[key], expected[key], `${path}.${key}`);
    }
  }
  const brief = (value: unknown) => (JSON.stringify(value) ?? "nothing").slice(0, 200);
  return `${path}: ${brief(shown)} instead of ${brief(expected)}`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** The connection of a gateway: frames arrive late, are lost or come twice. */
class Connection {
  readonly gateway: DeltaGateway;
  readonly #random: Random;
  readonly #played: Played;
  plane = 0;
  #link: GatewayLink | undefined;
  #onTheWay: string[] = [];
  #clockMs = 0;

  constructor(gateway: DeltaGateway, random: Random, played: Played) {
    this.gateway = gateway;
    this.#random = random;
    this.#played = played;
  }

  connect(planes: readonly PushedState[], place: number): void {
    this.#onTheWay = [];
    this.plane = place;
    this.#played.reconnects += 1;
    const socket = socketThat((text) => this.#onTheWay.push(text));
    const link = new GatewayLink(
      socket,
      { onSent: () => undefined, onFree: () => undefined },
      () => this.#clockMs++ * 2_000,
    );
    this.#link = link;
    link.begin({ position: this.gateway.hello, protocol: protocolVersion });
    link.push(planes[place] as PushedState);
  }

  lose(): void {
    this.#link = undefined;
    this.#onTheWay = [];
  }

  /** What may happen between two edits. */
  turn(planes: readonly PushedState[]): void {
    const random = this.#random;
    if (this.#link === undefined || random.below(100) === 0) this.connect(planes, random.below(planes.length));
    if (random.below(400) === 0) {
      this.gateway.restart(random.below(7));
      this.connect(planes, random.below(planes.length));
    }
    this.#link?.push(planes[this.plane] as PushedState);
    if (random.below(3) > 0) this.#deliver(planes);
  }

  /** Until the gateway has what its control plane has. */
  settle(planes: readonly PushedState[]): void {
    for (let turn = 0; turn < 100; turn++) {
      const { position } = planes[this.plane] as PushedState;
      const { epoch, revision, edition } = this.gateway.state.position;
      if (epoch === position.epoch && revision === position.revision && edition === position.edition) return;
      if (this.#link === undefined || turn % 10 === 9) this.connect(planes, this.plane);
      this.#link?.push(planes[this.plane] as PushedState);
      this.#deliver(planes, true);
    }
    throw new Error("a gateway does not come to what its control plane has");
  }

  #deliver(planes: readonly PushedState[], surely = false): void {
    const text = this.#onTheWay.shift();
    const link = this.#link;
    if (text === undefined || link === undefined) return;
    const chance = surely ? 99 : this.#random.below(100);
    if (chance === 0) {
      this.#played.lost += 1;
      // Its control plane waits for the answer until the connection is opened anew.
      if (this.#random.below(2) === 0) this.lose();
      return;
    }
    if (chance === 1) {
      this.#played.repeated += 1;
      this.#answer(link, text);
    }
    this.#answer(link, text);
    if (this.#random.below(4) === 0) this.gateway.store();
    link.push(planes[this.plane] as PushedState);
  }

  #answer(link: GatewayLink, text: string): void {
    const answer = this.gateway.receive(text) as { type: string; epoch: string; revision: number };
    link.answered(answer, answer.type === "resync" ? "resync" : "taken");
  }
}

/** The part of a WebSocket that a link uses; what it sends has arrived at once. */
function socketThat(takes: (text: string) => void): WebSocket {
  let parts: Buffer[] = [];
  return {
    OPEN: 1,
    readyState: 1,
    on: () => undefined,
    send(data: Buffer, options: { fin?: boolean }, sent: (error?: Error) => void) {
      parts.push(data);
      if (options.fin !== false) {
        takes(Buffer.concat(parts).toString());
        parts = [];
      }
      sent();
    },
  } as unknown as WebSocket;
}
