// An HTTP answer as it came, read to its end.
package sluice;

/**
 * What the gateway answered.
 *
 * @param contentType without its parameters, in small letters; empty if it is absent
 * @param keepsConnection whether the next request may use its connection
 * @param retryAfterSeconds what Retry-After says; 0 if it is absent or is not a number of seconds
 */
record Reply(int status, String contentType, boolean keepsConnection, long retryAfterSeconds, byte[] body) {
  static final int MAX_BODY_BYTES = 1024 * 1024;
}
