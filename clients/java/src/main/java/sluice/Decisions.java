// The decision about several checks that are charged together or not at all.
package sluice;

import java.util.List;

/**
 * The decision about all checks of a call of checkAll.
 *
 * @param allowed whether all checks are allowed; if not, none was charged
 * @param results the decision of each check, in their order
 * @param failure one sentence that says what failed, if the source is FAILURE; null otherwise
 */
public record Decisions(boolean allowed, List<Decision> results, Source source, String failure) {}
