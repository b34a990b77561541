// A gateway's state without nginx: it reads frames as the gateway does, and keeps the texts of entries as shared memory and the disk do.

import { termOf } from "../../control-plane/src/push/position-proof.ts";
import { noPause } from "../../limiter/src/basics/pause.ts";
import { noFindings } from "../../limiter/src/document/problems.ts";
import type { GatewayMessage } from "../../limiter/src/protocol/push-messages.ts";
import { entriesChange, type HeldEntries, readFrame } from "../../limiter/src/protocol/read-frame.ts";
import { commitChange, prepareChange } from "../../limiter/src/state/change.ts";
import { nameOfBan } from "../../limiter/src/state/entries.ts";
import { emptyState, type PolicyState } from "../../limiter/src/state/policy-state.ts";
import { json } from "../fixtures/documents/loaded-state.ts";

/** What is on disk. */
interface Stored {
  readonly position: PolicyState["position"];
  readonly texts: ReadonlyMap<string, string>;
}

export class DeltaGateway {
  state = emptyState();
  #texts = new Map<string, string>();
  /** What was on disk lately: a log that was cut somewhere has one of these. */
  #stored: Stored[] = [];
  counts = { snapshots: 0, deltas: 0, misfits: 0, restarts: 0 };

  get held(): HeldEntries {
    return {
      position: this.state.position,
      textOf: (name) => this.#texts.get(name),
      eachName: (callback) => {
        for (const name of this.#texts.keys()) callback(name);
      },
    };
  }

  get hello() {
    const { epoch, revision, edition, proof = "" } = this.state.position;
    return { epoch, revision, edition, term: termOf(proof) };
  }

  /** @returns the answer @throws if a frame is refused: none of these may be */
  receive(text: string): GatewayMessage {
    const { position } = this.state;
    const reading = readFrame((place) => (place === 0 ? text : undefined), json, this.held, noPause);
    const misfit = { type: "resync", epoch: position.epoch, revision: position.revision } as const;
    if (reading.misfit) {
      this.counts.misfits += 1;
      return misfit;
    }
    const { frame, problems } = reading;
    if (frame === undefined) throw new Error(`refused: ${JSON.stringify(problems)}`);
    const findings = noFindings();
    const prepared = prepareChange(this.state, frame.change, findings, noPause);
    if (findings.problems.length > 0) throw new Error(`refused: ${JSON.stringify(findings.problems)}`);
    if (frame.policyCount !== undefined && frame.policyCount !== prepared.policyCount) {
      throw new Error(`there would be ${prepared.policyCount} policies, and ${frame.policyCount} are expected`);
    }
    commitChange(this.state, prepared);
    if (frame.type === "snapshot") this.counts.snapshots += 1;
    else this.counts.deltas += 1;
    for (const name of [...frame.gone, ...prepared.bansGone.map((id) => nameOfBan({ id }))]) this.#texts.delete(name);
    for (const { name, text: entry } of frame.set) this.#texts.set(name, entry);
    const { epoch, revision } = frame.change.position;
    return { type: "applied", epoch, revision };
  }

  /** Notes what is on disk now. */
  store(): void {
    this.#stored.push({ position: this.state.position, texts: new Map(this.#texts) });
    if (this.#stored.length > 5) this.#stored.shift();
  }

  /** @param place which of the states that were on disk lately it finds; beyond: none */
  restart(place: number): void {
    this.counts.restarts += 1;
    const stored = this.#stored[place];
    this.state = emptyState();
    this.#texts = new Map(stored?.texts);
    if (stored === undefined) return;
    const entries = [...stored.texts].map(([name, text]) => ({ name, text }));
    const findings = noFindings();
    const written = { position: stored.position, set: entries, gone: [], isValid: false };
    const change = entriesChange(written, json, findings, noPause);
    commitChange(this.state, prepareChange(this.state, change, findings, noPause));
    if (findings.problems.length > 0) throw new Error(`refused from disk: ${JSON.stringify(findings.problems)}`);
  }
}
