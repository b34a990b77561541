// What npm run bench -- control-plane finds out, as its JSON file has it.
import type { EditCost, EditTimes, Occupied } from "./edits.ts";
import type { Hostile } from "./hostile.ts";
import type { PutAll } from "./put-all.ts";
import type { Starts } from "./starts.ts";

/** One number of policies with one number of gateways. */
export interface Edits {
  readonly policies: number;
  readonly gateways: number;
  readonly times: EditTimes;
  /** Only with one gateway. */
  readonly alone?: {
    readonly cost: EditCost;
    readonly loaded: Occupied;
    readonly after: Occupied;
    /** From the start of the process until it is ready, with its policies in the database. */
    readonly controlPlaneReadyMs: number;
    /** From the start of nginx until each worker has the policies from its disk, without a control plane. */
    readonly gatewayFromDiskMs: readonly number[];
  };
}

export interface Results {
  /** A control plane and a gateway without policies. */
  empty?: Occupied;
  edits: Edits[];
  putAll: PutAll[];
  starts?: Starts;
  hostile?: Hostile;
}
