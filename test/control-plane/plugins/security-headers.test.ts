// What browsers are told about answers.

import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { pagePolicy } from "../../../control-plane/src/plugins/security-headers.ts";
import { startBrowser } from "../../fixtures/clients/console-page.ts";
import { sharedControlPlane } from "../../fixtures/servers/control-plane-under-test.ts";

const shared = sharedControlPlane();

it.each([
  ["GET", "/apps", 200],
  ["GET", "/nowhere", 404],
  ["GET", "/%ff", 400],
  ["DELETE", "/apps", 405],
  ["GET", "healthz", 200],
  ["GET", "metrics", 200],
  ["GET", "openapi.json", 200],
  ["PUT", "/apps/default/policies/a", 400],
])("%s %s has every header", async (method, path, expected) => {
  const { status, headers } = await shared().call(method, path);
  expect(status).toBe(expected);
  expect(headers.get("content-security-policy")).toBe(
    "default-src 'none';base-uri 'none';form-action 'none';frame-ancestors 'none'",
  );
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  expect(headers.get("x-frame-options")).toBe("DENY");
  expect(headers.get("referrer-policy")).toBe("no-referrer");
  expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
  expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
  expect(headers.get("cache-control")).toBe("no-store");
  expect(headers.has("strict-transport-security")).toBe(false);
  expect(headers.has("x-powered-by")).toBe(false);
});

it("what never becomes a request has headers too", async () => {
  const { url } = shared();
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.end("this is not HTTP\r\n\r\n");
  const answer = await text(socket);
  expect(answer).toContain("\r\nx-content-type-options: nosniff\r\n");
  expect(answer).toContain("\r\ncontent-security-policy: default-src 'none';");
});

it("/docs still shows the API in a browser, under a policy that lets nobody else's scripts run", async () => {
  const { url } = shared();
  const browser = await startBrowser();
  try {
    const page = await browser.newPage();
    const faults: string[] = [];
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("pageerror", (error) => faults.push(error.message));
    const answer = await page.goto(`${url}/docs/`);
    expect(answer?.headers()["content-security-policy"]).toBe(pagePolicy);
    const path = '[data-path="/api/v1/apps/{app}/policies/{policy}"]';
    await page.waitForSelector(path);
    // The page's own policy forbids a style that the page can do without.
    expect(faults.filter((fault) => !fault.startsWith("Applying inline style"))).toEqual([]);
  } finally {
    await browser.close();
  }
});
