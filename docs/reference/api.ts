// What the control plane says of its own API: it is built, asked and closed, and listens nowhere.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildControlPlane } from "../../control-plane/src/app.ts";
import { readConfiguration } from "../../control-plane/src/configuration.ts";
import type { RouteRow } from "../../control-plane/src/plugins/route-table.ts";

export interface Api {
  readonly routes: readonly RouteRow[];
  /** The content of openapi.json. */
  readonly description: unknown;
}

export async function describeApi(): Promise<Api> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-docs-"));
  try {
    const { app } = await buildControlPlane(
      readConfiguration({ SLUICE_DATA_DIR: directory, SLUICE_CONTROL_PORT: "0", SLUICE_LOG_LEVEL: "silent" }),
    );
    const api = { routes: [...app.routeTable], description: JSON.parse(JSON.stringify(app.swagger())) };
    await app.close();
    return api;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
