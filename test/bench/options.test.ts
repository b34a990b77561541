import { describe, expect, it } from "vitest";
import { readControlPlaneOptions } from "../../bench/control-plane/options.ts";
import { readIntakeOptions } from "../../bench/intake/options.ts";
import { readPutManyOptions } from "../../bench/put-many/options.ts";
import { readRlsOptions } from "../../bench/rls/options.ts";
import { percentile } from "../../bench/statistics.ts";

describe("bench -- control-plane", () => {
  it("measures everything unless it is told otherwise", () => {
    expect(readControlPlaneOptions([])).toMatchObject({
      only: ["edits", "put-all", "starts", "hostile"],
      policies: [100, 1_000, 10_000],
      gateways: [1, 200, 1_000],
      fleetPolicies: [1_000, 10_000],
      edits: 200,
      protocol: 2,
      databaseUrl: undefined,
      jsonFile: expect.stringMatching(/bench\/results\/control-plane\.json$/),
    });
  });

  it("takes lists, and measures in its own order", () => {
    const args = ["--only", "hostile,edits", "--policies", "10,100000", "--gateways", "1,5", "--fleet-policies", "7"];
    expect(readControlPlaneOptions([...args, "--database", "postgres://h/d"])).toMatchObject({
      only: ["edits", "hostile"],
      policies: [10, 100_000],
      gateways: [1, 5],
      fleetPolicies: [7],
      databaseUrl: "postgres://h/d",
    });
  });

  it.each([
    [["--only", "edit"], '--only: expected edits, put-all, starts, hostile, got "edit"'],
    [["--policies", "100,"], '--policies: expected an integer 1…100000, got ""'],
    [["--policies", "100001"], '--policies: expected an integer 1…100000, got "100001"'],
    [["--gateways", "0"], '--gateways: expected an integer 1…5000, got "0"'],
    [["--protocol", "3"], '--protocol: expected an integer 1…2, got "3"'],
    [["--edit", "3"], "Unknown option '--edit'"],
  ])("refuses %j", (args, said) => {
    expect(() => readControlPlaneOptions(args)).toThrow(said);
  });
});

describe("bench -- intake", () => {
  it("takes more than one number of policies", () => {
    expect(readIntakeOptions(["--policies", "10000,100000", "--pushes", "5"])).toMatchObject({
      policies: [10_000, 100_000],
      pushes: 5,
      workers: 2,
      luaDir: undefined,
    });
    expect(readIntakeOptions([]).policies).toEqual([10_000]);
  });

  it("refuses what is no number", () => {
    expect(() => readIntakeOptions(["--policies", "1e4"])).toThrow(
      '--policies: expected an integer 1…100000, got "1e4"',
    );
  });
});

describe("bench -- put-many", () => {
  it("takes how many policies and how often, and refuses what is no number", () => {
    expect(readPutManyOptions(["--policies", "500", "--times", "2"])).toMatchObject({
      policies: 500,
      times: 2,
      databaseUrl: undefined,
    });
    expect(() => readPutManyOptions(["--times", "0"])).toThrow('--times: expected an integer 1…1000, got "0"');
    expect(() => readPutManyOptions(["--rows", "1"])).toThrow("Unknown option '--rows'");
  });
});

describe("bench -- rls", () => {
  it("takes rounds and seconds, and refuses what it does not know", () => {
    expect(readRlsOptions(["--rounds", "2"])).toMatchObject({ rounds: 2, seconds: 3 });
    expect(() => readRlsOptions(["--seconds", "0"])).toThrow('--seconds: expected an integer 1…600, got "0"');
    expect(() => readRlsOptions(["--callers", "1"])).toThrow("Unknown option '--callers'");
  });
});

it("finds percentiles of values in any order", () => {
  const values = Array.from({ length: 200 }, (_, i) => (i * 7) % 200);
  expect([percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1)]).toEqual([100, 198, 199]);
  expect(percentile([3], 0.99)).toBe(3);
  expect(percentile([], 0.5)).toBeNaN();
});
