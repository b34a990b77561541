import { expect, it } from "vitest";
import { renderNginxConfig, resolverDirective } from "../../launch/nginx-config.ts";
import { readSettings } from "../../launch/settings.ts";

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

it.each([
  [{}, false],
  [{ SLUICE_CONTROL_URL: "http://control.example.com", SLUICE_REDIS_URL: "redis://redis.example.com" }, false],
  [{ SLUICE_CONTROL_URL: "https://control.example.com" }, true],
  [{ SLUICE_REDIS_URL: "rediss://redis.example.com" }, true],
  [{ SLUICE_REDIS_URL: "rediss+cluster://redis.example.com" }, true],
])("nginx reads the system's certificates only if it connects by TLS: %o", (env, reads) => {
  const config = renderNginxConfig(readSettings(env), { path: "nginx", modules: [] });
  expect(config.includes("lua_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;")).toBe(reads);
});
