// Whose mistake it is, when a request with several checks is refused as a whole.
package sluice;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Splits an error by the checks that it names. */
final class Mistakes {
  private static final Pattern PATH = Pattern.compile("checks\\[([0-9]{1,4})\\]\\.?(.*)", Pattern.DOTALL);

  private Mistakes() {}

  /**
   * @param size the number of checks in the request
   * @return an error for each check that is named, by its place. Its paths are relative to the check
   */
  static Map<Integer, SluiceException> byCheck(SluiceException whole, int size) {
    Map<Integer, List<SluiceException.Fault>> faults = new LinkedHashMap<>();
    for (SluiceException.Fault fault : whole.errors()) {
      Matcher path = PATH.matcher(fault.path());
      if (!path.matches()) continue;
      int place = Integer.parseInt(path.group(1));
      if (place >= size) continue;
      var own = new SluiceException.Fault(path.group(2), fault.expected(), fault.got());
      faults.computeIfAbsent(place, none -> new ArrayList<>()).add(own);
    }
    Map<Integer, SluiceException> errors = new LinkedHashMap<>();
    faults.forEach(
        (place, own) ->
            errors.put(place, new SluiceException(whole.code(), whole.status(), whole.detail(), own, null)));
    return errors;
  }

  /** @return the error of a request with one check */
  static SluiceException ofOnly(SluiceException whole) {
    return byCheck(whole, 1).getOrDefault(0, whole);
  }
}
