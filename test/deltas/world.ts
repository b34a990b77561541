// What is stored, as a model that changes at random: apps with and without realms, templates, policies, bans and callers' tokens. It
// says after each edit what has changed, as the history of the database would, and what everything is.

import type { App, AppRealm } from "../../control-plane/src/storage/apps.ts";
import type { StateChanges, StoredState } from "../../control-plane/src/storage/state.ts";
import { termsFrom } from "../../control-plane/src/storage/terms.ts";
import type { SnapshotBan } from "../../limiter/src/compiled/bans.ts";
import type { SnapshotCaller } from "../../limiter/src/state/entries.ts";
import type { Random } from "./random.ts";

const apps = ["default", "shop", "sms", "old"];
const templateNames = ["polite", "plain"];
const zones = ["UTC", "Europe/Berlin", "Asia/Shanghai", "Asia/Chungking"];
const cidrs = ["192.0.2.0/24", "192.0.2.7/32", "2001:db8::/32", "198.51.100.0/25", "@office", "@crawlers"];
const listNames = ["office", "crawlers"];
const hosts = ["a.example", "b.example", "*.example", "*.b.example", "c.example"];
const paths = ["/x", "/y", "/x/*", "/x/y/*", "/*", "~^/v[0-9]+$"];

/** Values, and patterns. */
const bannedKeys = [{ key: ["u1"] }, { key: ["u*"] }, { keyPattern: ["u*"] }, { keyPattern: ["*"] }];

/** Far after every run. */
const untilSeconds = [4_000_000_000, 4_000_000_100, 4_100_000_000];

/** Where an edit may be noted. */
interface Noted {
  policies: Map<string, { app: string; name: string; wasDeleted: boolean }>;
  templates: Set<string>;
  apps: Set<string>;
  appsDeleted: Set<string>;
  networkLists: Set<string>;
  bans: Set<string>;
  callersOf: Set<string>;
}

export interface Size {
  /** How many policies an app may have. */
  readonly names: number;
  /** How many edits a change of many may have. */
  readonly many: number;
}

export class World {
  readonly #random: Random;
  readonly #names: readonly string[];
  readonly #many: number;
  epoch = 1;
  revision = 0;
  readonly #policies = new Map<string, { app: string; name: string; document: string }>();
  readonly #templates = new Map<string, Map<string, Record<string, unknown>>>(apps.map((app) => [app, new Map()]));
  readonly #apps = new Map<string, Pick<App, "realm" | "exempt">>();
  /** By app and name: the ranges, as JSON. */
  readonly #networkLists = new Map<string, string>();
  readonly #bans = new Map<string, SnapshotBan>();
  readonly #callers = new Map<string, SnapshotCaller>();
  /** What each revision changed, for control planes that read only now and then. */
  #noted: Noted[] = [];
  #notedFrom = 0;
  #ids = 0;

  constructor(random: Random, { names, many }: Size) {
    this.#random = random;
    this.#names = ["constructor", ...Array.from({ length: names - 1 }, (_, i) => `p${i}`)];
    this.#many = many;
    this.#apps.set("default", { realm: { state: "all" }, exempt: undefined });
    this.#apps.set("old", { realm: { state: "legacy" }, exempt: undefined });
  }

  get proofKey(): string {
    return "key";
  }

  /** Makes one change, which is one revision. */
  edit(): void {
    const noted: Noted = {
      policies: new Map(),
      templates: new Set(),
      apps: new Set(),
      appsDeleted: new Set(),
      networkLists: new Set(),
      bans: new Set(),
      callersOf: new Set(),
    };
    const edits = this.#random.below(40) === 0 ? 1 + this.#random.below(this.#many) : 1;
    for (let i = 0; i < edits; i++) this.#editOne(noted);
    this.revision += 1;
    this.#noted.push(noted);
    if (this.#noted.length > 2_000) {
      this.#notedFrom += 1_000;
      this.#noted = this.#noted.slice(1_000);
    }
  }

  /** Another history begins, as after a restore of a backup. */
  newEpoch(): void {
    this.epoch += 1;
    this.revision += 1;
    this.#noted = [];
    this.#notedFrom = this.revision;
  }

  whole(): StoredState {
    return {
      epoch: `epoch-${this.epoch}`,
      revision: this.revision,
      proofKey: this.proofKey,
      terms: termsFrom(`epoch-${this.epoch}`, null),
      policies: this.#random.shuffled([...this.#policies.values()]),
      apps: [...this.#apps].map(([name, settings]) => appOf(name, settings)),
      templates: [...this.#templates].flatMap(([app, templates]) =>
        [...templates].map(([name, document]) => ({ app, name, document: JSON.stringify(document) })),
      ),
      networkLists: [...this.#networkLists].map(([key, ranges]) => ({ ...splitKey(key), ranges })),
      bans: [...this.#bans.values()],
      callers: [...this.#callers.values()],
    };
  }

  /** @returns undefined: this is not known any more */
  changesSince({ epoch, revision }: { epoch: string; revision: number }): StateChanges | undefined {
    if (epoch !== `epoch-${this.epoch}` || revision < this.#notedFrom) return undefined;
    const noted = this.#noted.slice(revision - this.#notedFrom);
    const policies = new Map<string, { app: string; name: string; wasDeleted: boolean }>();
    const all = (key: Exclude<keyof Noted, "policies">) => new Set(noted.flatMap((one) => [...one[key]]));
    for (const one of noted) {
      for (const [key, policy] of one.policies) {
        policies.set(key, { ...policy, wasDeleted: policy.wasDeleted || policies.get(key)?.wasDeleted === true });
      }
    }
    const appsOfTemplates = all("templates");
    for (const [key, { app, name, document }] of this.#policies) {
      if (!appsOfTemplates.has(app) || policies.has(key) || !document.includes('"template"')) continue;
      policies.set(key, { app, name, wasDeleted: false });
    }
    return {
      epoch: `epoch-${this.epoch}`,
      revision: this.revision,
      proofKey: this.proofKey,
      terms: termsFrom(`epoch-${this.epoch}`, null),
      policies: [...policies].map(([key, policy]) => ({ ...policy, document: this.#policies.get(key)?.document })),
      apps: [...all("apps")].map((name) => {
        const settings = this.#apps.get(name);
        const wasDeleted = noted.some((one) => one.appsDeleted.has(name));
        return { name, app: settings === undefined ? undefined : appOf(name, settings), wasDeleted };
      }),
      networkLists: [...all("networkLists")].map((key) => ({
        ...splitKey(key),
        ranges: this.#networkLists.get(key),
      })),
      bans: [...all("bans")].map((id) => ({ id, ban: this.#bans.get(id) })),
      callers: [...all("callersOf")].map((app) => ({
        app,
        callers: [...this.#callers.values()].filter((caller) => caller.app === app),
      })),
      templates: new Map(this.#templates),
    };
  }

  #editOne(noted: Noted): void {
    const app = this.#random.of(apps);
    const kind = this.#random.below(22);
    if (kind > 19) this.#putNetworks(app, noted);
    else if (kind < 9) this.#putPolicy(app, noted);
    else if (kind < 12) this.#deletePolicy(app, this.#random.of(this.#names), noted);
    else if (kind < 14) this.#putBan(app, noted);
    else if (kind === 14) this.#deleteBan(noted);
    else if (kind === 15) this.#putTemplate(app, noted);
    else if (kind === 16) this.#editApp(noted);
    else if (kind === 17) this.#putCaller(app, noted);
    else if (kind === 18) this.#deleteCaller(noted);
    else this.#deletePolicy(app, this.#random.of(this.#names), noted, true);
  }

  #putPolicy(app: string, noted: Noted): void {
    const name = this.#random.of(this.#names);
    this.#policies.set(keyOf(app, name), { app, name, document: JSON.stringify(this.#document(app, name)) });
    note(noted, app, name, false);
    this.#appear(app, noted);
  }

  /** @param andAgain it is made anew in the same change */
  #deletePolicy(app: string, name: string, noted: Noted, andAgain = false): void {
    if (!this.#policies.delete(keyOf(app, name))) return;
    for (const [id, ban] of this.#bans) if (ban.app === app && ban.policy === name) this.#bans.delete(id);
    note(noted, app, name, true);
    if (!andAgain) return;
    this.#policies.set(keyOf(app, name), { app, name, document: JSON.stringify(this.#document(app, name)) });
    if (this.#random.below(2) === 0) this.#putBan(app, noted, name);
  }

  #putBan(app: string, noted: Noted, policy?: string): void {
    const id = `ban-${this.#ids++}`;
    const until = this.#random.of(untilSeconds);
    const ofPolicy = policy ?? (this.#random.below(2) === 0 ? this.#random.of(this.#names) : undefined);
    const ban: SnapshotBan =
      ofPolicy === undefined
        ? { id, app, cidr: this.#random.of(cidrs), untilSeconds: until }
        : { id, app, policy: ofPolicy, ...this.#random.of(bannedKeys), untilSeconds: until };
    this.#bans.set(id, ban);
    noted.bans.add(id);
    this.#appear(app, noted);
  }

  /** Lists of some blocks, of which some stay as they are. */
  #putNetworks(app: string, noted: Noted): void {
    const key = `${app}:${this.#random.of(listNames)}`;
    noted.networkLists.add(key);
    if (this.#random.below(4) === 0) {
      this.#networkLists.delete(key);
      return;
    }
    const some = (digits: number) => {
      const count = this.#random.below(700);
      const all = Array.from({ length: count }, (_, i) =>
        (i * 5 + (i % 97 === 0 ? this.#random.below(3) : 0)).toString(16),
      );
      return all.map((one) => `${one.padStart(digits, "0")}${one.padStart(digits, "0")}`).join("");
    };
    this.#networkLists.set(key, JSON.stringify({ v4: some(8), v6: this.#random.below(3) === 0 ? some(32) : "" }));
  }

  #deleteBan(noted: Noted): void {
    const id = this.#random.ofOrNone([...this.#bans.keys()]);
    if (id === undefined) return;
    this.#bans.delete(id);
    noted.bans.add(id);
  }

  #putTemplate(app: string, noted: Noted): void {
    const templates = this.#templates.get(app) as Map<string, Record<string, unknown>>;
    const onLimit = { action: "reject", status: this.#random.of([403, 429, 503]) };
    templates.set(this.#random.of(templateNames), { onLimit });
    noted.templates.add(app);
  }

  #editApp(noted: Noted): void {
    const app = this.#random.of(["shop", "sms", "old", "default"]);
    const choice = app === "default" ? 4 : this.#random.below(4);
    const isEmpty = ![...this.#policies.values()].some((policy) => policy.app === app);
    if (choice === 0 && isEmpty && this.#apps.has(app)) {
      this.#apps.delete(app);
      for (const [id, ban] of this.#bans) if (ban.app === app) this.#bans.delete(id);
      for (const [sha256, caller] of this.#callers) if (caller.app === app) this.#callers.delete(sha256);
      noted.callersOf.add(app);
      noted.appsDeleted.add(app);
      if (this.#random.below(2) === 0) this.#putBan(app, noted);
    } else if (choice === 1) this.#setApp(app, { state: "none" });
    else if (choice === 2) this.#setApp(app, { state: "legacy" });
    else if (choice === 4) this.#setApp(app, { state: "all" });
    else {
      const document = this.#random.of([
        { hosts: ["*.example", "a.example"], paths: ["/x"] },
        { paths: ["/"] },
        { hosts: ["a.example", "b.example", "c.example", "*.example", "*.b.example"] },
      ]);
      this.#setApp(app, { state: "set", document });
    }
    noted.apps.add(app);
  }

  #setApp(app: string, realm: AppRealm): void {
    const exempt = this.#random.of([
      undefined,
      { cidrs: ["192.0.2.0/24", "@office"] },
      { cidrs: ["2001:db8::/32"], keys: [{ part: "header:x-user", pattern: "u1" }] },
    ]);
    this.#apps.set(app, { realm, exempt });
  }

  #putCaller(app: string, noted: Noted): void {
    const sha256 = (this.#ids++).toString(16).padStart(64, "0");
    const expires = this.#random.below(2) === 0 ? {} : { expiresAtSeconds: this.#random.of(untilSeconds) };
    const named = this.#random.below(2) === 0 ? {} : { name: `caller "${this.#random.below(100)}"` };
    this.#callers.set(sha256, { app, sha256, ...named, ...expires });
    noted.callersOf.add(app);
    this.#appear(app, noted);
  }

  #deleteCaller(noted: Noted): void {
    const sha256 = this.#random.ofOrNone([...this.#callers.keys()]);
    if (sha256 === undefined) return;
    noted.callersOf.add(this.#callers.get(sha256)?.app ?? "");
    this.#callers.delete(sha256);
  }

  /** What belongs to an app makes it exist. */
  #appear(app: string, noted: Noted): void {
    if (this.#apps.has(app)) return;
    this.#setApp(app, { state: "none" });
    noted.apps.add(app);
  }

  #document(app: string, name: string): object {
    const random = this.#random;
    const some = (values: readonly string[]) => values.filter(() => random.below(4) === 0);
    const listed = { hosts: some(hosts), paths: some(paths), methods: some(["GET", "POST"]) };
    const match = Object.fromEntries(Object.entries(listed).filter(([, values]) => values.length > 0));
    const templates = [...(this.#templates.get(app)?.keys() ?? [])];
    const template = random.below(3) === 0 ? random.ofOrNone(templates) : undefined;
    return {
      name,
      mode: random.of(["enforce", "enforce", "enforce", "shadow", "off"]),
      priority: random.below(3),
      ...(Object.keys(match).length === 0 ? {} : { match }),
      key: random.of([[], ["ip"], ["header:x-user"]]),
      limits: [{ algorithm: "fixed-window", quota: 1 + random.below(100), window: "1m" }],
      ...(template === undefined ? {} : { onLimit: { template } }),
      ...(random.below(5) === 0
        ? { schedule: { timezone: random.of(zones), windows: [{ days: ["mon"], from: "09:00", to: "18:00" }] } }
        : {}),
    };
  }
}

function note({ policies }: Noted, app: string, name: string, wasDeleted: boolean): void {
  const key = keyOf(app, name);
  policies.set(key, { app, name, wasDeleted: wasDeleted || policies.get(key)?.wasDeleted === true });
}

function keyOf(app: string, name: string): string {
  return `${app}/${name}`;
}

function appOf(name: string, settings: Pick<App, "realm" | "exempt">): App {
  return { name, createdAtMs: 0, revision: 0, bounds: undefined, ...settings };
}

function splitKey(key: string): { app: string; name: string } {
  const [app = "", name = ""] = key.split(":");
  return { app, name };
}
