// A control plane in a process of its own, which a test may kill.

import { fileURLToPath } from "node:url";
import { adminToken, gatewayToken, temporaryDir, unlimited } from "../../fixtures/servers/control-plane-under-test.ts";
import { Program } from "../../fixtures/servers/program.ts";
import { onFinished } from "../../fixtures/side-by-side.ts";

const main = fileURLToPath(new URL("../../../control-plane/src/main.ts", import.meta.url));

const serves = /^sluice: control plane on (\S+)$/m;

export class ServedProcess {
  readonly #program: Program;

  private constructor(program: Program) {
    this.#program = program;
  }

  /**
   * Starts one that ends with the test at the latest.
   *
   * @param until what it has printed then
   * @throws with its output if it does not come up
   */
  static async start(env: Record<string, string>, until = serves): Promise<ServedProcess> {
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
      readyWhen: until,
    });
    onFinished(() => program.stop("SIGKILL"));
    return new ServedProcess(program);
  }

  /** Empty until it serves. */
  get url(): string {
    return serves.exec(this.output)?.[1] ?? "";
  }

  /** All that it has printed. */
  get output(): string {
    return this.#program.output;
  }

  /** Keeps it from doing anything, while its connections stay open: as a machine does that stands still. */
  freeze(): void {
    this.#program.child.kill("SIGSTOP");
  }

  thaw(): void {
    this.#program.child.kill("SIGCONT");
  }

  stop(signal: NodeJS.Signals): Promise<void> {
    return this.#program.stop(signal);
  }
}
