import { expect, test } from "vitest";
import { canonicalZones, withZones } from "../../../control-plane/src/zones/policy-zones.ts";

const zones = Intl.supportedValuesOf("timeZone");

function documentOf(names: readonly string[]): string {
  return JSON.stringify(names.map((timezone) => ({ timezone })));
}

function cpuMsOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

test("the names of zones that consumers' own limits have are found without the changes of their offsets, which take longer", () => {
  const document = documentOf(zones);
  const names = cpuMsOf(() =>
    expect(canonicalZones(document.toUpperCase().replaceAll("TIMEZONE", "timezone"))).toBe(document),
  );
  const changes = cpuMsOf(() => expect(withZones(document, 1_800_000_000).zones).toHaveLength(zones.length));
  expect(names).toBeLessThan(changes / 3);
});

test("a name of no zone stays as it is, and is looked for once", () => {
  const document = documentOf(Array.from({ length: 2_000 }, (_, i) => `Mars/P${i}`));
  const first = cpuMsOf(() => expect(canonicalZones(document)).toBe(document));
  const again = cpuMsOf(() => expect(canonicalZones(document)).toBe(document));
  expect(again).toBeLessThan(first / 3);
});

test("a name that is that of a zone but for a letter beyond ASCII makes no zone unknown", () => {
  // The sign for kelvin is k in lower case.
  const strange = documentOf(zones.map((name) => name.replace(/k/i, "\u212a")).filter((name) => !zones.includes(name)));
  expect(canonicalZones(strange)).toBe(strange);
  expect(withZones(documentOf(zones), 1_900_000_000).zones).toHaveLength(zones.length);
});
