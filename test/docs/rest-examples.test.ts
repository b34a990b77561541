// The examples of docs/rest.md are run as they are written, one after the other, against a real control plane.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { buildControlPlane, type ControlPlane } from "../../control-plane/src/app.ts";
import { readConfiguration } from "../../control-plane/src/configuration.ts";
import { docs } from "../../docs/reference/pages.ts";

const run = promisify(execFile);
const token = "test-admin-token-0123456789";
const page = await readFile(join(docs, "rest.md"), "utf8");
const examples = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, example]) => example as string);

/** A refusal ends the example: curl then says so by its status. */
const strict = `set -euo pipefail
curl() { command curl --fail-with-body "$@"; }
`;

const books = {
  key: ["ip", "header:x-user-id"],
  limits: [{ name: "daily", algorithm: "fixed-window", quota: 5000, window: "1d" }],
};

let directory: string;
let control: ControlPlane;
let url: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-examples-"));
  const environment = { SLUICE_DATA_DIR: directory, SLUICE_CONTROL_PORT: "0", SLUICE_ADMIN_TOKEN: token };
  control = await buildControlPlane(readConfiguration({ ...environment, SLUICE_LOG_LEVEL: "silent" }));
  url = await control.app.listen({ host: "127.0.0.1", port: 0 });
  await writeFile(join(directory, "books-per-user.json"), JSON.stringify(books));
  // What some of the examples are about: the app shop with four revisions.
  const put = (path: string, body: object) =>
    fetch(`${url}/api/v1${path}`, {
      method: "PUT",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  await put("/apps/shop", {});
  await put("/apps/bank", {});
  for (const description of ["one", "two", "three"]) await put("/apps/shop/policies/books", { ...books, description });
});

afterAll(async () => {
  await control.app.close();
  await rm(directory, { recursive: true, force: true });
});

it("there are examples", () => expect(examples.length).toBeGreaterThan(9));

it.each(examples.map((example) => [example.split("\n").slice(0, 2).join(" ").slice(0, 100), example]))(
  "%s",
  async (_, example) => {
    const script = strict + example.replaceAll("http://127.0.0.1:8081", url);
    const options = { cwd: directory, env: { PATH: process.env["PATH"], SLUICE_API_TOKEN: token } };
    const { stdout } = await run("bash", ["-c", script], options);
    expect(stdout).not.toContain("urn:sluice:error");
  },
);
