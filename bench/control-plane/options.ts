// Reads the command line of npm run bench -- control-plane.
import { resolve } from "node:path";
import { optionsFrom } from "../../launch/command-line.ts";
import { SetupError } from "../../launch/step.mjs";
import { integer, integers } from "../options.ts";

/** What can be measured, in the order in which it is. */
export const parts = ["edits", "put-all", "starts", "hostile"] as const;
export type Part = (typeof parts)[number];

export interface ControlPlaneOptions {
  readonly only: readonly Part[];
  readonly policies: readonly number[];
  /** Numbers of gateways. One of them is real, the others are simulated. */
  readonly gateways: readonly number[];
  /** With more gateways than one, only these numbers of policies are measured. */
  readonly fleetPolicies: readonly number[];
  readonly edits: number;
  /** Edits of one kind end after so long, even if there were fewer. */
  readonly seconds: number;
  readonly rounds: number;
  /** What simulated gateways say. */
  readonly protocol: 1 | 2;
  /** An empty database; absent: SQLite in a directory of its own. */
  readonly databaseUrl: string | undefined;
  readonly jsonFile: string;
}

const usage = `npm run bench -- control-plane [--only ${parts.join(",")}] [--policies 100,1000,10000] [--gateways 1,200,1000]
  [--fleet-policies 1000,10000] [--edits 200] [--seconds 180] [--rounds 6] [--protocol 2] [--database URL] [--json FILE]`;
const text = { type: "string" } as const;
const options = {
  only: text,
  policies: text,
  gateways: text,
  "fleet-policies": text,
  edits: text,
  seconds: text,
  rounds: text,
  protocol: text,
  database: text,
  json: text,
};

/** @throws SetupError with what was expected and what came */
export function readControlPlaneOptions(args: readonly string[]): ControlPlaneOptions {
  const values = optionsFrom(args, options, usage);
  const only = values.only?.split(",") ?? [...parts];
  for (const part of only) {
    if (!parts.includes(part as Part))
      throw new SetupError(`--only: expected ${parts.join(", ")}, got "${part}"\n${usage}`);
  }
  return {
    only: parts.filter((part) => only.includes(part)),
    policies: integers("policies", values.policies, [100, 1_000, 10_000], 100_000),
    gateways: integers("gateways", values.gateways, [1, 200, 1_000], 5_000),
    fleetPolicies: integers("fleet-policies", values["fleet-policies"], [1_000, 10_000], 100_000),
    edits: integer("edits", values.edits, 200, 100_000),
    seconds: integer("seconds", values.seconds, 180, 36_000),
    rounds: integer("rounds", values.rounds, 6, 1_000),
    protocol: integer("protocol", values.protocol, 2, 2) as 1 | 2,
    databaseUrl: values.database,
    jsonFile: resolve(values.json ?? `${import.meta.dirname}/../results/control-plane.json`),
  };
}
