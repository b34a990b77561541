// The tables of docs/policies.md have further spellings, and npm run spellings compares with real servers.

import { describe, expect, it } from "vitest";
import { argumentValue as read } from "../../../limiter/src/key/argument.ts";
import { documentedSpellings } from "../../fixtures/documents/documented-spellings.ts";

const readUsual = (written: string) => (/^[\w.~-]*$/.test(written) ? written : undefined);
const argumentValue = (query: string, name: string) => read(query, name, readUsual);

describe("the table of arguments", () => {
  it.each(documentedSpellings("`?`"))("says how $written is read", ({ written, reading }) => {
    expect(argumentValue(written, "user")).toBe(reading);
  });

  it.each(documentedSpellings("`NAME`"))("says how $written is read beside user_name", ({ written, reading }) => {
    expect(argumentValue(`user_name=ann&${written}=x`, "user_name")).toBe(reading);
  });
});

describe("what ordinary clients send", () => {
  it.each([
    ["user", "ids[]=1&ids[]=2&user=ann"],
    ["user", "users[]=1&user=ann&user_id=2&user-id=3&user.name=x&my_user=y&User-Agent=z&user2=b"],
    ["user", "user=ann&filter[user]=x&filter[users]=x&page[number]=2&sort=-user&fields%5Bname%5D=y"],
    ["user", "user=ann&url=http://x/?user=ben&redirect=%2F%3Fuser%3Dben&q=user"],
    ["user", "a=1&&user=ann&"],
    ["user", "utf8=%E2%9C%93&_charset_=UTF-8&_method=put&authenticity_token=a%2Bb%3D%3D&user=ann"],
    ["user", "a.x=1&a.y=2&=3&x%20y=4&z+z=5&[a]=6&user=ann"],
    ["user", "us=1&use=2&userx=3&xuser=4&u%C3%A9=5&user=ann"],
    ["user_name", "user_name=ann&user=x&name=y&username=z&user[name]=w&user_name2=v&user-name=u"],
    ["user[name]", "user[name]=ann&user[password]=x&user[nickname]=y&user=z&users[name]=w&user[address][name]=v"],
    ["user[name]", "user%5Bname%5D=ann&user_name=x&name=z&commit=Log+in"],
    ["user.name", "user.name=ann&user.password=x&user[password]=y&username=z"],
    ["ids[]", "ids[]=ann&id=1&ids2[]=x&_ids[]=y"],
    ["_id", "_id=ann&id=1&__id=2&x_id=3"],
  ])("has the value of %s in %s", (name, query) => {
    expect(argumentValue(query, name)).toBe("ann");
  });
});

describe("the name of an argument", () => {
  it.each([
    [
      "user[name]",
      [
        "user[name][]",
        "user[name]x",
        "[user][name]",
        "user][name]",
        "user[[name]]",
        "USER[name]",
        "user[name",
        " user[name]",
        "user.name",
        "User.Name",
        "us%0Aer[name]",
      ],
    ],
    [
      "user.name",
      [
        "user_name",
        "user name",
        "user+name",
        "user[name",
        "user%5Fname",
        "user[name]",
        "User%5BName%5D",
        "name",
        "NAME",
      ],
    ],
    ["a.b.c", ["a[b][c]", "a[b].c", "a.b[c]", "b.c", "b[c]", "c"]],
    [
      "user",
      [
        "!user",
        "!+user",
        "\tuser",
        "%09user",
        "us%0Aer",
        "user+",
        "user%0D",
        "%C2%85user",
        "us%A0er",
        "%7Fuser",
        "us%E3%80%80er+",
      ],
    ],
    ["a b", ["a+b%20", "%20a+b%20", "ab", "+a b"]],
    ["ids[]", ["ids", "ids[0]", "ids[", "ids]"]],
    ["_id", [".id", "[id", " _id", "__proto__[_id][_id", "[_id"]],
    ["été", ["ÉTÉ"]],
  ])("%s is similar to %j", (name, others) => {
    const bytes = (text: string) => Buffer.from(text).toString("latin1");
    for (const other of others) {
      const expected = other.startsWith("__proto__") ? undefined : false;
      expect([other, argumentValue(`${bytes(other)}=x`, bytes(name))]).toEqual([other, expected]);
    }
  });

  it("is not searched for behind more blanks or brackets than anybody writes", () => {
    expect(argumentValue(`${" ".repeat(16)}other=x`, "user")).toBeUndefined();
    expect(argumentValue(`${" ".repeat(17)}other=x`, "user")).toBe(false);
    expect(argumentValue(`use${"]".repeat(17)}s=x`, "user")).toBe(false);
  });
});

describe("an argument among very many", () => {
  it.each(["&", ";"])("is read among 1,000 that %s separates, and not among 1,001", (separator) => {
    expect(argumentValue(`${`x${separator}`.repeat(998)}x&user=ann`, "user")).toBe("ann");
    expect(argumentValue(`${`x${separator}`.repeat(999)}x&user=ann`, "user")).toBe(false);
  });

  it("is read by itself after a text with too many", () => {
    expect(argumentValue("x;".repeat(2_000), "user")).toBe(false);
    expect(argumentValue("user=ann", "user")).toBe("ann");
  });
});
