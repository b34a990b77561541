// Starts the servers whose readings are compared with Sluice's.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runStep, SetupError } from "../../launch/step.mjs";
import { AspNetModel } from "./aspnet-model.ts";
import { BodyModels } from "./body-models.ts";
import { LineServers } from "./line-servers.ts";
import { NodeServers } from "./node-servers.ts";
import { Php } from "./php.ts";
import type { Servers } from "./server.ts";

const sources = join(import.meta.dirname, "servers");
const jars = [
  "tomcat9-coyote",
  "tomcat9-servlet-api",
  "tomcat9-util",
  "tomcat9-juli",
  "jetty9-util",
  "jetty9-http",
  "jetty9-server",
];
const classPath = jars.map((jar) => `/usr/share/java/${jar}.jar`).join(":");

export async function startServers(stack: AsyncDisposableStack): Promise<readonly Servers[]> {
  const directory = mkdtempSync(join(tmpdir(), "sluice-spellings-"));
  stack.defer(() => rmSync(directory, { recursive: true }));
  await Promise.all([
    built("go", ["build", "-o", join(directory, "go-server"), "main.go"]),
    built("javac", ["-cp", classPath, "-d", directory, "Servlets.java"]),
  ]);
  const servers = [
    new NodeServers(),
    new AspNetModel(),
    new BodyModels(),
    await Php.start(),
    new LineServers("ruby", ["rack.rb"]),
    new LineServers("/usr/bin/python3", ["wsgi.py"]),
    new LineServers(join(directory, "go-server"), []),
    new LineServers("java", ["-cp", `${classPath}:${directory}`, "Servlets"]),
  ];
  for (const each of servers) stack.defer(() => each.stop());
  return servers;
}

async function built(command: string, args: readonly string[]): Promise<void> {
  const { code, output } = await runStep(`building with ${command}`, command, [...args], { cwd: sources });
  if (code !== 0) throw new SetupError(`${command} ${args.join(" ")} failed (exit code ${code}):\n${output}`);
}
