// Tests what is read for services that have one list of fields, arguments and cookies. npm run spellings compares with real servers.

import { describe, expect, it } from "vitest";
import { fieldValue as readField } from "../../../limiter/src/key/field.ts";

const fieldValue = (
  form: string | undefined,
  { query = "", cookies = "", charset = "utf-8" as "utf-8" | "ascii" } = {},
) => readField(form, query, cookies, "user", charset, () => undefined);

describe("a field of a form", () => {
  it("has the value of the argument if there is no such field, and else that of the cookie", () => {
    expect(fieldValue("password=x", { query: "user=ann" })).toBe("ann");
    expect(fieldValue("password=x", { cookies: "a=b; user=ann%40example.com" })).toBe("ann@example.com");
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

  it("is the cookie alone, as PHP and ASP.NET read it, and not what a service joins of several", () => {
    expect(fieldValue("", { cookies: "user=chunks-1; userC1=ann" })).toBe("chunks-1");
    expect(fieldValue("", { cookies: "user_0=ann; user_1=ben" })).toBeUndefined();
  });

  it("is ambiguous if its argument or cookie comes with a body that is not read, which may have another value", () => {
    expect(fieldValue(undefined, { query: "user=ann" })).toBe(false);
    expect(fieldValue(undefined, { cookies: "user=ann" })).toBe(false);
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

  it.each(["user=ann&a={", "&user=ann", "%7B=1&user=ann", "a[]=1&user=ann", "\r\na=1&user=ann", "\xc3\xa9=1&user=ann"])(
    "is read in the form %j",
    (form) => expect(fieldValue(form)).toBe("ann"),
  );

  it("is ambiguous beyond ASCII if servers read it in different charsets", () => {
    expect(fieldValue("user=jos%C3%A9")).toBe("jos\xc3\xa9");
    expect(fieldValue("user=jos%C3%A9", { charset: "ascii" })).toBe(false);
    expect(fieldValue("user=jose", { charset: "ascii" })).toBe("jose");
  });
});
