// A table that scrolls within the page where it is wider than the page.

import type { ReactNode } from "react";

export function Table({
  label,
  columns,
  children,
}: {
  label: string;
  columns: readonly string[];
  /** The rows. */
  children: ReactNode;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    // biome-ignore lint/a11y/useSemanticElements: a table is no fieldset
    <div className="wide" role="group" tabIndex={0} aria-label={label}>
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
