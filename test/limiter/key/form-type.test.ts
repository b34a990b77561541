import { describe, expect, it } from "vitest";
import { formReading, mostFormBytes } from "../../../limiter/src/key/form-type.ts";
import { readVectors } from "../../parity/vectors.ts";

const form = "application/x-www-form-urlencoded";
const { forms, inAscii, others, ambiguous } = readVectors("form-types");

describe("the body of a request", () => {
  it.each(forms)("with %j is a form", ({ type, encoding }) => expect(formReading(type, encoding)).toBe("utf-8"));
  it.each(inAscii)("with %j is a form that is the same to all servers in ASCII alone", ({ type, encoding }) =>
    expect(formReading(type, encoding)).toBe("ascii"),
  );
  it.each(others)("with %j is none", ({ type, encoding }) => expect(formReading(type, encoding)).toBeUndefined());
  it.each(ambiguous)("with %j is a form to some servers", ({ type, encoding }) =>
    expect(formReading(type, encoding)).toBe(false),
  );

  it("is ambiguous if one of the headers has several lines", () => {
    expect(formReading(false, undefined)).toBe(false);
    expect(formReading(form, false)).toBe(false);
    expect(formReading(undefined, false)).toBe(false);
  });

  it("is ambiguous if its type is longer than 256 bytes and may be a form", () => {
    const padded = (bytes: number) => `${form};${" ".repeat(bytes - form.length - 1)}`;
    expect(formReading(padded(256), undefined)).toBe("utf-8");
    expect(formReading(padded(257), undefined)).toBe(false);
    expect(formReading("x".repeat(257), undefined)).toBeUndefined();
  });

  it("is read up to 64 KiB", () => expect(mostFormBytes).toBe(64 * 1024));
});
