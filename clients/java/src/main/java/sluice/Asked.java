// A check that waits for its decision.
package sluice;

import java.nio.charset.StandardCharsets;

/** A check, the call that waits for it, and the request in which it is. */
final class Asked {
  final Check check;
  final Call<Decision> call;
  final String json;
  final int bytes;
  /** The request that carries it; null while it waits for a place. The lock of the batches guards it. */
  Batch batch;

  Asked(Check check, Call<Decision> call) {
    this.check = check;
    this.call = call;
    json = JsonWriter.text(check.fields());
    bytes = json.getBytes(StandardCharsets.UTF_8).length;
  }
}
