// The gateway's answer that a call is wrong: the caller's mistake, never a refusal and never a failure.
package sluice;

import java.util.List;

/** The gateway refused to decide, because the request is wrong. Nothing was charged. */
public final class SluiceException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /**
   * One field that is wrong.
   *
   * @param path the field; of a single check relative to the check, such as key[1]; of checkAll such as checks[2].key[1]
   * @param got what came; null if the gateway does not say
   */
  public record Fault(String path, String expected, String got) {}

  private final String code;
  private final int status;
  private final String detail;
  private final transient List<Fault> errors;

  SluiceException(String code, int status, String detail, List<Fault> errors, Throwable cause) {
    super(code + " (" + status + ")" + (detail == null ? "" : ": " + detail) + faults(errors), cause);
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.errors = List.copyOf(errors);
  }

  /** The same with the stack of the thread that waited for it. */
  SluiceException here() {
    return new SluiceException(code, status, detail, errors, this);
  }

  /** The gateway's code, such as policy-not-found. Let programs decide by it. */
  public String code() {
    return code;
  }

  /** The HTTP status. */
  public int status() {
    return status;
  }

  /** A sentence for humans; null if the gateway gave none. */
  public String detail() {
    return detail;
  }

  /** The fields that are wrong, if the gateway lists them. */
  public List<Fault> errors() {
    return errors == null ? List.of() : errors;
  }

  private static String faults(List<Fault> errors) {
    var text = new StringBuilder();
    for (Fault fault : errors) {
      text.append("; ").append(fault.path()).append(": expected ").append(fault.expected());
      if (fault.got() != null) text.append(", got ").append(fault.got());
    }
    return text.toString();
  }
}
