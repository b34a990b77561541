// What the client decides when it could not ask.
package sluice;

/** What is decided when nobody could be asked. */
public enum OnFailure {
  /** Fail open: calls are allowed. */
  ALLOW,
  /** Fail closed: calls are refused. */
  DENY
}
