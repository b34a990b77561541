import { expect, it } from "vitest";
import { resolverDirective } from "../../launch/nginx-config.ts";

it("the resolver directive names only the first name server, as libc uses only that one while it answers", () => {
  const resolvConf = "search example.org\nnameserver 10.89.0.1\nnameserver 192.0.2.53\n";
  expect(resolverDirective(resolvConf)).toBe("resolver 10.89.0.1 ipv6=off valid=10s;");
});

it("the resolver directive skips what nginx cannot take, and is absent if nothing is left", () => {
  expect(resolverDirective("nameserver fe80::1%eth0\nnameserver 2001:db8::53\n")).toBe(
    "resolver [2001:db8::53] ipv6=off valid=10s;",
  );
  expect(resolverDirective("# none\n")).toBe("");
});
