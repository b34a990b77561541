import { describe, expect, test } from "vitest";
import { isBannedAddress, type PolicyBans } from "../../../limiter/src/compiled/bans.ts";
import { layOut } from "../../../limiter/src/protocol/frame-lines.ts";
import { HeldState, loadText } from "../../fixtures/documents/loaded-state.ts";
import { smallestDocument } from "../policies.ts";

const head = { type: "snapshot", format: 1, epoch: "e1", revision: 7, zones: { UTC: [[0, 0]] } };
const policy = (name: string, more: object = {}) => ({ app: "shop", document: { ...smallestDocument, name, ...more } });
const ban = { id: "b1", app: "shop", cidr: "10.0.0.0/8", untilSeconds: 4e9 };

function text(policies: readonly object[], bans: readonly object[] = [], callers: readonly object[] = []): string {
  const lines = (entries: readonly object[]) => entries.map((entry) => JSON.stringify(entry));
  return layOut("snapshot", JSON.stringify(head), {
    apps: [],
    bans: lines(bans),
    callers: lines(callers),
    policies: lines(policies),
  });
}

describe("a snapshot that is laid out by lines", () => {
  test("is a valid JSON document, with all that the lines hold", () => {
    const from = text([policy("a"), policy("b")], [ban]);
    const lists = { bans: [ban], callers: [], policies: [policy("a"), policy("b")] };
    expect(JSON.parse(from)).toEqual({ ...head, ...lists });
    const { snapshot, problems } = loadText(from);
    expect(problems).toEqual([]);
    expect(snapshot).toMatchObject({ position: { epoch: "e1", revision: 7 }, banList: [ban], callerList: [] });
    expect(snapshot?.policies.map(({ app, name }) => `${app}/${name}`)).toEqual(["shop/a", "shop/b"]);
  });

  test("pauses after every policy, while it is read and while the change is prepared", () => {
    let pauses = 0;
    const policies = Array.from({ length: 100 }, (_, i) => policy(`p${i}`));
    new HeldState().take(text(policies), () => {
      pauses += 1;
    });
    expect(pauses).toBeGreaterThan(300);
  });

  test("reports a policy's problems with its place", () => {
    const { problems } = loadText(text([policy("a"), policy("b", { key: "x" })]));
    expect(problems).toMatchObject([{ path: "policies[1].document.key" }]);
  });

  test("is distinguished from a text with another layout, and from one that is not JSON", () => {
    const good = text([policy("a"), policy("b")], [ban]);
    expect(loadText(good).problems).toEqual([]);
    for (const other of [
      JSON.stringify(JSON.parse(good)),
      JSON.stringify(JSON.parse(good), undefined, 2),
      good.slice(0, -3),
      good.replace(",\n{", "\n{"),
      good.replace("\n]}", ",\n]}"),
      good.replace('"callers":[\n],\n', ""),
      good.replace('"policies"', '"bans"'),
      good.replace('"revision":7', '"revision":7,"policies":[]'),
      good.replace('"app":"shop"', '"app":shop'),
      `${good}{}\n`,
    ]) {
      expect(other).not.toBe(good);
      expect(loadText(other), other).toEqual({
        problems: [
          {
            path: "",
            expected: "a snapshot or a delta, laid out in lines",
            got: "a text with another layout, or one that is not JSON",
          },
        ],
      });
    }
  });

  test("changes only what differs from what is held: other policies stay the objects that they were", () => {
    const held = new HeldState();
    const of = (name: string) => held.state.policiesByName["shop"]?.[name];
    held.take(text([policy("a"), policy("b"), policy("c")]));
    const [a, b] = [of("a"), of("b")];
    const { frame } = held.take(text([policy("a"), policy("b", { priority: 5 })]));
    expect(frame?.set.map(({ name }) => name)).toEqual(["p:shop:b"]);
    expect(frame?.gone).toEqual(["p:shop:c"]);
    expect(of("a")).toBe(a);
    expect(of("b")).not.toBe(b);
    expect(of("b")?.policy.priority).toBe(5);
    expect(of("c")).toBeUndefined();
  });

  test("compiles again the policies for which the bans have changed, and forgets bans that are gone", () => {
    const held = new HeldState();
    const of = (name: string) => held.state.policiesByName["shop"]?.[name];
    const policies = [policy("a"), policy("b")];
    held.take(text(policies));
    held.take(text(policies, [ban]));
    for (const name of ["a", "b"]) {
      expect(of(name)?.policy.fastPath).toBe(false);
      expect(isBannedAddress(of(name)?.bans as PolicyBans, "10.1.2.3", 0)).toBe(true);
    }
    const banned = of("a");
    held.take(text([policy("a"), policy("c")], [ban]));
    expect(of("a")).toBe(banned);
    held.take(text(policies));
    expect([of("a"), of("b")].map((one) => [one?.bans, one?.policy.fastPath])).toEqual([
      [undefined, true],
      [undefined, true],
    ]);
  });
});
