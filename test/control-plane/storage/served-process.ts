// A control plane in a process of its own, which a test may kill.

import { fileURLToPath } from "node:url";
import { adminToken, gatewayToken, temporaryDir, unlimited } from "../../fixtures/servers/control-plane-under-test.ts";
import { Program } from "../../fixtures/servers/program.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";

const main = fileURLToPath(new URL("../../../control-plane/src/main.ts", import.meta.url));

export class ServedProcess {
  readonly url: string;
  readonly #program: Program;

  private constructor(program: Program, url: string) {
    this.#program = program;
    this.url = url;
  }

  /** Starts one that ends with the test at the latest. @throws with its output if it does not come up */
  static async start(env: Record<string, string>): Promise<ServedProcess> {
    const program = await Program.start({
      command: process.execPath,
      args: [main],
      env: {
        SLUICE_CONTROL_PORT: "0",
        ...unlimited,
        SLUICE_ADMIN_TOKEN: adminToken,
        SLUICE_GATEWAY_TOKEN: gatewayToken,
        SLUICE_DATA_DIR: await temporaryDir(),
        ...env,
      },
      readyWhen: /^sluice: control plane on (\S+)$/m,
    });
    onFinished(() => program.stop("SIGKILL"));
    const [, url = ""] = /^sluice: control plane on (\S+)$/m.exec(program.output) ?? [];
    return new ServedProcess(program, url);
  }

  /** All that it has printed. */
  get output(): string {
    return this.#program.output;
  }

  stop(signal: NodeJS.Signals): Promise<void> {
    return this.#program.stop(signal);
  }
}
