// Entries of a state as they come from elsewhere: what each is, and what is said of one that is not.

import { describe, expect, test } from "vitest";
import { noPause } from "../../../limiter/src/basics/pause.ts";
import { type Findings, noFindings } from "../../../limiter/src/document/problems.ts";
import {
  readAppEntry,
  readBanEntry,
  readCallerEntry,
  readGoneEntry,
  readNetworksEntry,
  readPolicyEntry,
  readZoneEntry,
} from "../../../limiter/src/state/read-entries.ts";
import { smallestDocument } from "../policies.ts";

/** @returns the entry, and what is wrong with it */
function read<Entry>(reader: (findings: Findings) => Entry | undefined) {
  const findings = noFindings();
  const entry = reader(findings);
  return { entry, problems: findings.problems };
}

const sha256 = "0a".repeat(32);

/** @returns every record that has some of these fields */
function combinations(fields: Readonly<Record<string, unknown>>): Record<string, unknown>[] {
  let all: Record<string, unknown>[] = [{}];
  for (const name in fields) all = all.flatMap((one) => [one, { ...one, [name]: fields[name] }]);
  return all;
}

const fieldsOf = (record: object) => Object.keys(record).join(" ");

describe("a policy", () => {
  const readPolicy = (value: unknown) => read((findings) => readPolicyEntry(value, "p[3]", findings));

  test("has the name of an app, and a document", () => {
    expect(readPolicy({ app: "shop", document: smallestDocument })).toMatchObject({
      entry: { app: "shop", policy: { name: "books" } },
      problems: [],
    });
  });

  test.each([
    [5, "5"],
    [undefined, "nothing"],
    [["shop"], "a list of 1"],
    ["Shop", '"Shop"'],
  ])("is refused with the app %j alone, whatever else is wrong", (app, got) => {
    const { entry, problems } = readPolicy({ app, document: {} });
    expect(entry).toBeUndefined();
    expect(problems).toMatchObject([{ path: "p[3].app", got }]);
  });

  test("is refused with the problems of its document", () => {
    expect(readPolicy({ app: "shop", document: 5 }).problems).toMatchObject([{ path: "p[3].document", got: "5" }]);
    const { entry, problems } = readPolicy({ app: "shop", document: { ...smallestDocument, mode: "on" } });
    expect(entry).toBeUndefined();
    expect(problems).toMatchObject([{ path: "p[3].document.mode", got: '"on"' }]);
  });
});

describe("a block of a list of networks", () => {
  const block = { app: "shop", networks: "crawlers", family: "ipv4", ranges: "0a0000000a0000ff" };
  const readBlock = (value: unknown, pause = noPause) =>
    read((findings) => readNetworksEntry(value, "networks[0]", findings, pause));
  const six = `${"0".repeat(31)}1${"0".repeat(31)}2`;

  test("has ranges in the digits of its family", () => {
    for (const one of [block, { ...block, family: "ipv6", ranges: six }]) {
      expect(readBlock(one)).toEqual({ entry: one, problems: [] });
    }
  });

  test("of other ranges is refused, and only the beginning of a long text is repeated", () => {
    const long = "0".repeat(63);
    for (const [family, ranges, got] of [
      ["ipv4", "0a0000ff0a000000", '"0a0000ff0a000000"'],
      ["ipv4", six.slice(0, 24), `"${six.slice(0, 24)}"`],
      ["ipv6", block.ranges, `"${block.ranges}"`],
      ["ipv4", `${long}xyz`, `"${long}x"`],
    ] as const) {
      const { entry, problems } = readBlock({ ...block, family, ranges });
      expect(entry).toBeUndefined();
      expect(problems).toEqual([
        { path: "networks[0].ranges", expected: `ranges of ${family} addresses in hex digits, in order`, got },
      ]);
    }
  });

  test("of another shape is refused for that", () => {
    const { entry, problems } = readBlock({ ...block, family: "ipv5" });
    expect(entry).toBeUndefined();
    expect(problems).toMatchObject([{ path: "networks[0].family", got: '"ipv5"' }]);
  });

  test("pauses at each address", () => {
    let pauses = 0;
    readBlock(block, () => {
      pauses += 1;
    });
    expect(pauses).toBe(2);
  });
});

describe("a ban", () => {
  const readBan = (value: object) =>
    read((findings) => readBanEntry({ id: "1", app: "shop", untilSeconds: 9, ...value }, "bans[2]", findings));
  const forms = combinations({ cidr: "10.0.0.0/8", policy: "books", key: ["a*"], keyPattern: ["b*"] });
  const valid = ["cidr", "policy key", "policy keyPattern"];

  test.each(forms.filter((form) => valid.includes(fieldsOf(form))))("is of a network or of key values: %j", (form) => {
    expect(readBan(form)).toEqual({ entry: { id: "1", app: "shop", untilSeconds: 9, ...form }, problems: [] });
  });

  test.each(forms.filter((form) => !valid.includes(fieldsOf(form))))("is not of something else: %j", (form) => {
    const got = fieldsOf(form) || "none of them";
    const problems = [{ path: "bans[2]", expected: "either cidr, or policy with key or keyPattern", got }];
    expect(readBan(form)).toEqual({ entry: undefined, problems });
  });

  test("is not of a pattern with * in the middle", () => {
    const { problems } = readBan({ policy: "books", keyPattern: ["b*c"] });
    expect(problems).toMatchObject([{ path: "bans[2].keyPattern[0]", got: '"b*c"' }]);
  });

  test("may be of a list of networks", () => {
    expect(readBan({ cidr: "@crawlers" }).problems).toEqual([]);
  });
});

describe("an entry that is gone", () => {
  const readGone = (value: unknown) => read((findings) => readGoneEntry(value, "gone[1]", findings));
  const forms = combinations({
    app: "shop",
    policy: "books",
    networks: "crawlers",
    from: "0a000000",
    ban: "b1",
    caller: sha256,
  });
  const valid = ["app", "app policy", "app networks from", "ban", "caller"];

  test.each(forms.filter((form) => valid.includes(fieldsOf(form))))("is %j", (form) => {
    expect(readGone(form)).toEqual({ entry: form, problems: [] });
  });

  test("is nothing else: each of the other combinations of fields is refused, and its fields are named", () => {
    const others = forms.filter((form) => !valid.includes(fieldsOf(form)));
    expect(others).toHaveLength(64 - valid.length);
    for (const form of others) {
      const expected =
        "networks" in form || "from" in form
          ? "app, networks and from together, and nothing else"
          : "app and policy, or one of app, ban and caller";
      const problems = [{ path: "gone[1]", expected, got: fieldsOf(form) || "none of them" }];
      expect(readGone(form), fieldsOf(form)).toEqual({ entry: undefined, problems });
    }
  });

  test("is refused for the shape of a field", () => {
    expect(readGone({ app: "Shop" })).toMatchObject({ entry: undefined, problems: [{ path: "gone[1].app" }] });
    expect(readGone(null)).toMatchObject({ entry: undefined, problems: [{ path: "gone[1]" }] });
  });
});

describe("a caller", () => {
  const readCaller = (digits: string) =>
    read((findings) => readCallerEntry({ app: "shop", sha256: digits }, "callers[0]", findings));

  test.each([sha256, "0123456789abcdef".repeat(4)])("has the SHA-256 of a token: %s", (digits) => {
    expect(readCaller(digits)).toEqual({ entry: { app: "shop", sha256: digits }, problems: [] });
  });

  // The characters right before 0 and a, and right behind 9 and f.
  test.each(["/", ":", "`", "g", "A"])("has no other digit: %s", (digit) => {
    expect(readCaller(digit + sha256.slice(1)).entry).toBeUndefined();
  });

  test("has 64 digits", () => {
    for (const digits of [sha256.slice(1), `${sha256}0`, ""]) expect(readCaller(digits).entry).toBeUndefined();
  });
});

test("an app is read as it is", () => {
  const app = { app: "shop", realm: { hosts: ["shop.test"] }, exempt: { cidrs: ["10.0.0.0/8"] } };
  expect(read((findings) => readAppEntry(app, "apps[0]", findings))).toEqual({ entry: app, problems: [] });
});

describe("a time zone", () => {
  const readZone = (value: unknown, zone = "Europe/Berlin") =>
    read((findings) => readZoneEntry(zone, value, "zones.x", findings));
  const expected = "a list of [seconds since the epoch, minutes ahead of UTC]";

  test("is a list of its changes", () => {
    const changes = [
      [-100, -1439],
      [0, 1439],
    ];
    expect(readZone(changes)).toEqual({ entry: changes, problems: [] });
  });

  test.each([
    [[]],
    [5],
    [[[0, -1440]]],
    [[[0, 1440]]],
    [[[0.5, 60]]],
    [[["0", 60]]],
    [[[null, 60]]],
    [[[0]]],
    [[[0, 60, 1]]],
    [
      [
        [0, 60],
        [1, "60"],
      ],
    ],
  ])("is nothing else: %j", (value) => {
    const { entry, problems } = readZone(value);
    expect(entry).toBeUndefined();
    expect(problems).toMatchObject([{ path: "zones.x", expected }]);
  });

  test.each([
    ["", '""'],
    ["a b", '"a b"'],
    ["a\nb", '"a?b"'],
    [" ", '" "'],
  ])("has a name without spaces, not %j", (name, got) => {
    const { entry, problems } = readZone([[0, 60]], name);
    expect(entry).toBeUndefined();
    expect(problems).toEqual([{ path: "zones", expected: "names without spaces", got }]);
  });
});
