// Bodies in tiny chunks. Node makes a buffer of each chunk, which takes a hundred times the memory of a byte, and calls back for each. This is
// no work of a request, so that no limit and no turn of requests bounds it.

import { IncomingMessage } from "node:http";

/** So many chunks in a row have so many bytes together, at least. */
export const countedChunks = 128;
export const leastBytesOfThem = 4_096;
/** The code of the error with which the server emits `clientError`. */
export const smallChunks = "SMALL_CHUNKS";

/**
 * Returns the class of a server's requests.
 *
 * @param onTooSmall is called once for a request whose chunks are too small; what else comes of its body is dropped
 */
export function requestsOfLargeChunks(onTooSmall: (request: IncomingMessage) => void): typeof IncomingMessage {
  return class extends IncomingMessage {
    #chunks = 0;
    #bytes = 0;
    #isTooSmall = false;

    /** Node's parser calls this with each chunk, whether or not somebody reads the body. */
    override push(chunk: Buffer | null): boolean {
      if (this.#isTooSmall) return false;
      this.#chunks += 1;
      this.#bytes += chunk?.length ?? 0;
      if (this.#chunks > countedChunks) {
        if (this.#bytes < leastBytesOfThem) {
          this.#isTooSmall = true;
          onTooSmall(this);
          return false;
        }
        this.#chunks = 0;
        this.#bytes = 0;
      }
      return super.push(chunk);
    }
  };
}
