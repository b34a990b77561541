// One request with checks that came at the same time.
package sluice;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Checks that share a request. */
final class Batch {
  /** The gateway accepts 64 KiB. */
  static final int MAX_BYTES = 60 * 1024;

  private static final String OPENING = "{\"mode\":\"each\",\"checks\":[";
  private static final String CLOSING = "]}";
  static final int EMPTY_BYTES = OPENING.length() + CLOSING.length();

  final List<Asked> members;
  /** 0: asked for the first time; 1: together again; 2: alone. */
  final int round;
  long sentNanos;
  volatile CompletableFuture<Reply> reply;

  Batch(List<Asked> members, int round) {
    this.members = members;
    this.round = round;
  }

  int size() {
    return members.size();
  }

  List<Check> checks() {
    return members.stream().map(asked -> asked.check).toList();
  }

  byte[] body() {
    var body = new StringBuilder(OPENING);
    for (Asked asked : members) {
      if (body.length() > OPENING.length()) body.append(',');
      body.append(asked.json);
    }
    return body.append(CLOSING).toString().getBytes(StandardCharsets.UTF_8);
  }

  boolean isSettled() {
    return members.stream().allMatch(asked -> asked.call.isSettled());
  }

  /** Nobody waits for the answer any more. */
  void cancelIfSettled() {
    CompletableFuture<Reply> sent = reply;
    if (sent != null && isSettled()) sent.cancel(true);
  }
}
