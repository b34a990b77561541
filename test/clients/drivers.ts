// The drivers of one client, for one test after the other: to start a JVM takes longer than most tests do. Those that a test kills are replaced.

import { type Command, Driver } from "./driver.ts";

export class Drivers {
  readonly #command: Command;
  readonly #idle: Driver[] = [];
  readonly #taken: Driver[] = [];

  constructor(command: Command) {
    this.#command = command;
  }

  /** @returns a driver that nobody else has, with a fresh client */
  async take(options: object): Promise<Driver> {
    const driver = this.#idle.pop() ?? new Driver(this.#command);
    this.#taken.push(driver);
    await driver.client(options);
    return driver;
  }

  /** Takes back all drivers that still run. */
  putBack(): void {
    for (const driver of this.#taken.splice(0)) if (driver.isRunning) this.#idle.push(driver);
  }

  async stop(): Promise<void> {
    this.putBack();
    await Promise.all(this.#idle.splice(0).map((driver) => driver.stop()));
  }
}
