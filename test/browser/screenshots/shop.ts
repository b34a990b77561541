// A shop with something going on, for the screenshots: policies of every kind, people who changed them, and traffic of which some is
// refused. All of it is real: the screenshots show what the gateways decided.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { System } from "../../fixtures/servers/system.ts";

const policies = [
  {
    name: "catalogue-per-address",
    description: "Crawlers may read the catalogue, but not all of it at once.",
    match: { paths: ["/catalogue/*"] },
    key: ["ip"],
    limits: [{ name: "steady", algorithm: "token-bucket", quota: 600, window: "1m", burst: 100 }],
  },
  {
    name: "checkout-per-customer",
    description: "A customer pays a few times a minute at most.",
    match: { paths: ["/checkout"], methods: ["POST"] },
    key: ["header:x-customer"],
    limits: [
      { name: "burst", algorithm: "sliding-window", quota: 5, window: "10s" },
      { name: "daily", algorithm: "fixed-window", quota: 200, window: "1d" },
    ],
    onLimit: { template: "polite" },
  },
  {
    name: "login-per-address",
    description: "Slows down whoever guesses passwords.",
    match: { paths: ["/login"] },
    key: ["header:x-client-address"],
    limits: [{ algorithm: "sliding-log", quota: 10, window: "1m" }],
    onLimit: { template: "polite" },
  },
  {
    name: "search-partners",
    scope: "cluster",
    description: "What each partner has booked. Partners with a larger contract have an override.",
    match: { paths: ["/api/search/*"] },
    key: ["header:x-partner"],
    limits: [{ name: "contract", algorithm: "fixed-window", quota: 300, window: "1m" }],
    overrides: [
      { key: ["acme"], limits: [{ name: "contract", algorithm: "fixed-window", quota: 1_200, window: "1m" }] },
    ],
  },
  {
    name: "reports-at-once",
    description: "Reports are expensive: four at once.",
    match: { paths: ["/api/reports"] },
    limits: [{ algorithm: "concurrency", quota: 4, ttl: "1m" }],
  },
  {
    name: "images-new-limit",
    description: "Tried in shadow mode, before it is enforced.",
    mode: "shadow",
    match: { paths: ["/images/*"] },
    key: ["ip"],
    limits: [{ algorithm: "token-bucket", quota: 50, window: "10s" }],
  },
  {
    name: "webhooks",
    description: "Smooths deliveries to ten a second.",
    match: { paths: ["/webhooks"] },
    limits: [{ algorithm: "leaky-bucket", quota: 10, window: "1s", maxDelay: "500ms" }],
  },
  {
    name: "old-api",
    description: "Nobody uses it any more.",
    mode: "off",
    match: { paths: ["/v1/*"] },
    limits: [{ algorithm: "fixed-window", quota: 1, window: "1h" }],
  },
];

/** Requests a second, their URLs, and the header that names who sends them. */
const streams: readonly {
  readonly rate: number;
  readonly path: string;
  readonly method?: string;
  readonly header?: string;
  readonly who: readonly string[];
}[] = [
  { rate: 40, path: "/catalogue/books", who: [""] },
  { rate: 8, path: "/checkout", method: "POST", header: "x-customer", who: ["ann", "ben", "cleo", "dan", "ann"] },
  { rate: 3, path: "/login", header: "x-client-address", who: ["203.0.113.7", "203.0.113.7", "198.51.100.23"] },
  { rate: 14, path: "/api/search/pens", header: "x-partner", who: ["acme", "initech", "initech", "globex"] },
  { rate: 12, path: "/images/logo.png", who: [""] },
  { rate: 9, path: "/webhooks", method: "POST", who: [""] },
];

export async function fillShop(system: System): Promise<void> {
  const change = async (method: string, path: string, body?: object) => {
    const { status, body: text } = await system.api(method, path, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
    return JSON.parse(text) as Record<string, string>;
  };
  const app = "/apps/default";
  await change("PUT", "/apps/warehouse", { realm: { hosts: ["warehouse.example.com"] } });
  await change("PUT", `${app}/templates/polite`, {
    onLimit: { action: "reject", status: 429, body: "Slow down, please.", headers: ["x-docs: /limits"] },
  });
  for (const { name, ...document } of policies) await change("PUT", `${app}/policies/${name}`, { name, ...document });
  await change("PUT", `${app}/policies/login-per-address`, {
    ...policies[2],
    limits: [{ algorithm: "sliding-log", quota: 12, window: "1m" }],
  });
  await change("POST", "/members", { name: "ann@example.com", roles: { default: "owner", warehouse: "viewer" } });
  await change("POST", "/members", { name: "ben@example.com", roles: { default: "editor" } });
  await change("POST", "/members", { name: "cleo@example.com", roles: { warehouse: "owner" } });
  await change("POST", "/tokens", { name: "deployment", app: "default", role: "editor", expiresIn: "90d" });
  await change("POST", "/tokens", { name: "sms service", app: "warehouse", role: "caller" });
  await change("POST", `${app}/bans`, { cidr: "192.0.2.0/24", for: "1d", reason: "Scrapes the catalogue" });
  await change("POST", `${app}/bans`, { policy: "login-per-address", key: ["203.0.113.99"], for: "1h" });
}

/** Sends the shop's traffic until it is told to stop. */
export async function trade({ gateways }: System, stopping: AbortSignal): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  let sent = 0;
  const send = (path: string, method: string, headers: Record<string, string>) => {
    const { url } = gateways[sent++ % gateways.length] ?? { url: "" };
    const asked = request(`${url}${path}`, { method, headers, agent }, (answer) => answer.resume());
    asked.on("error", () => undefined);
    asked.end();
  };
  const stepMs = 50;
  const due = streams.map(() => 0);
  for (let step = 0; !stopping.aborted; step++) {
    // Waves, so that one sees that it is alive.
    const wave = 1 + 0.5 * Math.sin((step * stepMs) / 7_000);
    for (const [i, { rate, path, method = "GET", header, who }] of streams.entries()) {
      due[i] = (due[i] ?? 0) + (rate * wave * stepMs) / 1_000;
      while ((due[i] ?? 0) >= 1) {
        due[i] = (due[i] ?? 0) - 1;
        const name = who[Math.floor(Math.random() * who.length)] ?? "";
        send(path, method, header === undefined ? {} : { [header]: name });
      }
    }
    await sleep(stepMs);
  }
  agent.destroy();
}
