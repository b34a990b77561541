// Tests what is read for services that have one list of fields, arguments and cookies. npm run spellings compares with real servers.

import { describe, expect, it } from "vitest";
import { fieldValue as readField } from "../../../limiter/src/key/field.ts";

const fieldValue = (
  form: string | undefined,
  { query = "", cookies = "", charset = "utf-8" as "utf-8" | "ascii" } = {},
) => readField(form, query, cookies, "user", charset, () => undefined);

describe("a field of a form", () => {
  it("has the value of the argument if there is no such field, and never that of a cookie alone", () => {
    expect(fieldValue("password=x", { query: "user=ann" })).toBe("ann");
    expect(fieldValue("password=x", { cookies: "a=b; user=ann" })).toBeUndefined();
    expect(fieldValue("password=x", { cookies: "user[]=ann; USER=ben" })).toBeUndefined();
    expect(fieldValue("password=x")).toBeUndefined();
  });

  it("is the same with an argument and a cookie that have its value", () => {
    expect(fieldValue("user=a+b", { query: "user=a%20b", cookies: "user=a%20b; users=x" })).toBe("a b");
  });

  it("is ambiguous beside an argument with another value, and beside one that some servers read", () => {
    expect(fieldValue("user=ann", { query: "user=ben" })).toBe(false);
    expect(fieldValue("user=ann", { query: "user[]=ann" })).toBe(false);
    expect(fieldValue("user=", { query: "user=ann" })).toBe(false);
  });

  it.each(["user=ben", "user=ann; user=ben", "user[]=ann", "USER=ann", 'user="ann"', "user=", "user=\xe9"])(
    "is ambiguous beside the cookie %s",
    (cookies) => {
      expect(fieldValue("user=ann", { cookies })).toBe(false);
      expect(fieldValue("", { query: "user=ann", cookies })).toBe(false);
    },
  );

  it("is ambiguous beside a cookie with +, which PHP decodes and ASP.NET does not", () => {
    expect(fieldValue("user=a%2Bb", { cookies: "user=a+b" })).toBe(false);
    expect(fieldValue("user=a%2Bb", { cookies: "user=a%2Bb" })).toBe("a+b");
  });

  it("is compared with the cookie as PHP and ASP.NET read it, and not with what a service joins of several", () => {
    expect(fieldValue("user=chunks-1", { cookies: "user=chunks-1; userC1=ann" })).toBe("chunks-1");
    expect(fieldValue("user=ann", { cookies: "user_0=ann; user_1=ben" })).toBe("ann");
  });

  it("is ambiguous beside a field of an object, in any place, that has its name and another value, as ASP.NET binds it", () => {
    for (const other of [
      "model.user",
      "model[user]",
      "Model%5BUser%5D",
      "a.b.USER",
      "model.user[]",
      "model.us%0aer+",
    ]) {
      expect([other, fieldValue(`user=ann&${other}=ben`)]).toEqual([other, false]);
      expect([other, fieldValue(`${other}=ben&user=ann`)]).toEqual([other, false]);
      expect([other, fieldValue("user=ann", { query: `${other}=ben` })]).toEqual([other, false]);
      expect([other, fieldValue(`${other}=ben`, { query: "user=ann" })]).toEqual([other, false]);
      expect([other, fieldValue(`user=ann&${other}=ann`)]).toEqual([other, "ann"]);
      expect([other, fieldValue(`${other}=ben`)]).toEqual([other, undefined]);
    }
    expect(fieldValue("user=ann&model.users=x&model[user][id]=y&superuser=z")).toBe("ann");
  });

  it.each(["user=ann=ben", "user==", "user=ann&user=ann="])("is ambiguous in %s, where Play ends a value", (form) => {
    expect(fieldValue(form)).toBe(false);
    expect(fieldValue("", { query: form })).toBe(false);
    expect(fieldValue("user=ann%3D&a=b==", { query: "c=d=" })).toBe("ann=");
  });

  it.each([...Array(32).keys()])("is ambiguous in a form with the byte %i, which browsers encode", (byte) => {
    for (const form of ["\0user=ann", "us\0er=ann", "user=ann\0", "user=ann&x=a\0b", "x=1\0"]) {
      expect(fieldValue(form.replace("\0", String.fromCharCode(byte)))).toBe(false);
    }
  });

  it.each(["%", "%4", "%\xef\xbc\x96\xef\xbc\x91ccount", "a%zz", "b=1;%u0061"])(
    "is ambiguous beside the name %s, which servers decode differently",
    (name) => {
      expect(fieldValue(`user=ann&${name}=x`)).toBe(false);
      expect(fieldValue("user=ann&x=100%")).toBe("ann");
    },
  );

  it("is ambiguous if its argument comes with a body that is not read, which may have another value", () => {
    expect(fieldValue(undefined, { query: "user=ann" })).toBe(false);
    expect(fieldValue(undefined, { query: "x=1", cookies: "sid=1" })).toBeUndefined();
  });

  it.each([
    ["", '{"user":"ben","x":"&user=ann&"}'],
    ["", '[{"user":"ben"},"&user=ann&"]'],
    ["", '"{}&user=ann"'],
    ["blanks", ' \t\r\n\x0b\x0c{"x":"&user=ann"}'],
    ["a byte order mark", '\xef\xbb\xbf{"x":"&user=ann"}'],
    ["a byte order mark and blanks of Unicode", '\xef\xbb\xbf\xc2\xa0\xe3\x80\x80{"x":"&user=ann"}'],
    ["a blank of Latin-1", '\xa0{"x":"&user=ann"}'],
    ["a byte order mark of UTF-16", '\xff\xfe{\0"\0x\0"\0:\0"\0&user=ann&"\0}\0'],
    ["a byte 0 of UTF-16", '\0{\0"\0x\0"\0:\0"&user=ann&\0"\0}'],
    ["a comment, as Gson and Newtonsoft.Json read it", '/*&user=ann&*/{"user":"ben"}'],
    ["a comment, as Gson reads it", '#&user=ann&\n{"user":"ben"}'],
    ["what Gson drops", ')]}\'\n{"user":"ben","x":"&user=ann&"}'],
  ])("is ambiguous in a body that some services take for JSON, behind %s: %j", (_, body) => {
    expect(fieldValue(body)).toBe(false);
    expect(fieldValue(body.replace("user=ann", ""))).toBe(false);
  });

  it.each(["user=ann&a={", "&user=ann", "%7B=1&user=ann", "a[]=1&user=ann", "\xc3\xa9=1&user=ann"])(
    "is read in the form %j",
    (form) => expect(fieldValue(form)).toBe("ann"),
  );

  it("is ambiguous beyond ASCII if servers read it in different charsets", () => {
    expect(fieldValue("user=jos%C3%A9")).toBe("jos\xc3\xa9");
    expect(fieldValue("user=jos%C3%A9", { charset: "ascii" })).toBe(false);
    expect(fieldValue("user=jose", { charset: "ascii" })).toBe("jose");
  });
});
