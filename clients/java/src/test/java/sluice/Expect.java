// Runs the tests of one class and says what came of each. The JDK has no test library, and this needs no more.
package sluice;

import java.util.Objects;

/** Expectations, and tests that are sentences. */
final class Expect {
  /** What a test does. */
  interface Body {
    void run() throws Exception;
  }

  private static int passed;
  private static int failed;

  private Expect() {}

  static void test(String sentence, Body body) {
    try {
      body.run();
      passed++;
      System.out.println("ok: " + sentence);
    } catch (Throwable e) {
      failed++;
      System.out.println("FAILED: " + sentence);
      e.printStackTrace(System.out);
    }
  }

  /** Ends the program. */
  static void report() {
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  static void same(Object got, Object expected) {
    if (!Objects.equals(got, expected)) throw new AssertionError("expected " + expected + ", got " + got);
  }

  static void that(boolean holds, String what) {
    if (!holds) throw new AssertionError("expected " + what);
  }

  static <E extends Throwable> E thrown(Class<E> kind, Body body) throws Exception {
    try {
      body.run();
    } catch (Throwable e) {
      if (kind.isInstance(e)) return kind.cast(e);
      throw new AssertionError("expected " + kind.getSimpleName() + ", got " + e, e);
    }
    throw new AssertionError("expected " + kind.getSimpleName() + ", but nothing was thrown");
  }

  /** Waits until it holds. */
  static void soon(String what, java.util.concurrent.Callable<Boolean> holds) throws Exception {
    long end = System.nanoTime() + 10_000_000_000L;
    while (!holds.call()) {
      that(System.nanoTime() - end < 0, "within 10 s: " + what);
      Thread.sleep(5);
    }
  }
}
