// The second half of `npm run bench -- memory`: the Lua memory that policies take in a worker.
//
// The policies come into force in the built gateway's own code, in an nginx of one worker, and each is then met by a request to each of
// its paths. What is counted is what LuaJIT's collector has left in use, divided by the policies. The parts are found by walking the
// tables; what is kept beside the policies, in tables of the gateway's parts, is the rest.
import type { Nginx } from "../../launch/nginx-binary.ts";
import { say } from "../../launch/step.mjs";
import type { Processes } from "../processes.ts";
import { table } from "../report.ts";
import { startProgram } from "./nginx.ts";

interface Shape {
  readonly what: string;
  readonly atMost?: number;
  readonly entryAt: (place: number) => Entry;
}

interface Entry {
  readonly app: string;
  readonly document: Record<string, unknown>;
  readonly asks: readonly { readonly host: string; readonly path: string }[];
}

const parts = ["record", "policy", "limits", "index", "names", "beside"] as const;

export interface PolicyFigure extends Readonly<Record<(typeof parts)[number], number>> {
  readonly what: string;
  readonly policies: number;
  /** Bytes a policy when no request has met any. */
  readonly inForce: number;
  /** Bytes a policy when requests have met all. */
  readonly asked: number;
  readonly atMost: number | undefined;
}

const count = 10_000;
const description = "As long as policies are that somebody has written by hand and explained a little.";

const shapes: readonly Shape[] = [
  {
    what: "two limits, a host, two paths",
    atMost: 4096,
    entryAt: (place) => handWritten(place, 10),
  },
  {
    what: "the same, each with its own quota and texts",
    atMost: 4096,
    entryAt: (place) => {
      const { document, ...rest } = handWritten(place, 10 + place);
      return { ...rest, document: { ...document, description: `${description} It is number ${place}.` } };
    },
  },
  {
    what: "the smallest",
    entryAt(place) {
      const host = `h${place}.example`;
      const limits = [{ algorithm: "token-bucket", quota: 10, window: "1s" }];
      return {
        app: "default",
        document: { name: `p${place}`, match: { hosts: [host] }, limits },
        asks: [{ host, path: "/" }],
      };
    },
  },
  {
    what: "with three overrides",
    entryAt(place) {
      const { document, ...rest } = handWritten(place, 10);
      const overrides = [1, 2, 3].map((i) => ({
        key: [`192.0.2.${i}`],
        limits: [{ name: "burst", algorithm: "token-bucket", quota: 100 * i, window: "1s" }],
      }));
      return { ...rest, document: { ...document, overrides } };
    },
  },
  {
    what: "with everything",
    entryAt(place) {
      const { document, asks, app } = handWritten(place, 10);
      return { app, asks, document: { ...document, ...everything(place) } };
    },
  },
];

function handWritten(place: number, quota: number): Entry {
  const host = `h${Math.floor(place / 10)}.example`;
  const path = `/sluice/${place % 10}`;
  return {
    app: "default",
    document: {
      name: `p${place}`,
      description,
      match: { hosts: [host], paths: [path, `${path}/*`] },
      key: ["ip"],
      limits: [
        { name: "burst", algorithm: "token-bucket", quota, window: "1s", burst: 100_000 },
        { name: "daily", algorithm: "fixed-window", quota: 1_000_000_000, window: "1d" },
      ],
    },
    asks: [
      { host, path },
      { host, path: `${path}/below` },
    ],
  };
}

function everything(place: number): Record<string, unknown> {
  const { match } = handWritten(place, 10).document as { match: object };
  return {
    match: { ...match, methods: ["GET", "POST"], headers: { "x-plan": ["free", `plan-${place}`] } },
    key: ["ip", "header:x-tenant"],
    priority: place,
    cost: { from: "header:x-cost", default: 1, max: 5 },
    onLimit: { action: "reject", status: 503, body: `Come back later (${place}).`, headers: [`x-place: ${place}`] },
    overrides: [{ key: ["*", `vip-${place}`], mode: "shadow" }],
    exempt: { cidrs: ["192.0.2.0/24"], keys: [["*", `own-${place}`]] },
  };
}

export async function policyMemory(processes: Processes, nginx: Nginx, luaDir: string): Promise<PolicyFigure[]> {
  const figures: PolicyFigure[] = [];
  for (const { what, atMost, entryAt } of shapes) {
    say(`${count} policies: ${what}`);
    const files = {
      "warm.jsonl": linesOf(2, entryAt),
      "policies.jsonl": linesOf(count, entryAt),
    };
    const program = await startProgram(processes, nginx, luaDir, {
      name: "policy_memory",
      args: [""],
      files,
      dictSize: "64m",
    });
    const answer = await program.ask("mode=measure");
    await program.stop();
    figures.push({ ...(JSON.parse(answer) as PolicyFigure), what, policies: count, atMost });
  }
  return figures;
}

function linesOf(many: number, entryAt: Shape["entryAt"]): string {
  return Array.from({ length: many }, (_, place) => JSON.stringify(entryAt(place))).join("\n");
}

export function policyTable(figures: readonly PolicyFigure[]): string {
  const rows = figures.map((figure) => [
    figure.what,
    figure.inForce.toFixed(0),
    figure.asked.toFixed(0),
    ...parts.map((part) => figure[part].toFixed(0)),
    figure.atMost === undefined ? "–" : `≤ ${figure.atMost}`,
    figure.atMost === undefined ? "" : figure.asked <= figure.atMost ? "met" : "not met",
  ]);
  return table(["a policy, in bytes of Lua", "in force", "asked", ...parts, "wanted", ""], rows).join("\n");
}
