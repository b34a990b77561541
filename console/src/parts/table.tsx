// A table that scrolls within the page where it is wider than the page.

import type { ReactNode } from "react";

export function Table({
  label,
  columns,
  busy = false,
  children,
}: {
  label: string;
  columns: readonly string[];
  /** Whether the rows are of an earlier question, until those of the present one are there. */
  busy?: boolean;
  /** The rows. */
  children: ReactNode;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    // biome-ignore lint/a11y/useSemanticElements: a table is no fieldset
    <div className="wide" role="group" tabIndex={0} aria-label={label} aria-busy={busy}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
