// Draws a forecast: what is offered, what the draft would admit, and what the policy in force would.

import type { Bins } from "../../../forecast/simulate.ts";

const height = 100;

export function ForecastChart({ label, draft, inForce }: { label: string; draft: Bins; inForce: Bins | undefined }) {
  const most = Math.max(1, ...draft.offered);
  const steps = (counts: Uint32Array) =>
    Array.from(counts, (count, i) => {
      const y = height - (count / most) * height;
      return `${i === 0 ? "M" : "L"}${i},${y}L${i + 1},${y}`;
    }).join("");
  const { length } = draft.offered;
  return (
    <svg
      className="forecast-chart"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${length} ${height}`}
      preserveAspectRatio="none"
    >
      <path className="offered" d={`${steps(draft.offered)}L${length},${height}L0,${height}Z`} />
      {inForce === undefined ? null : <path className="in-force" d={steps(inForce.admitted)} />}
      <path className="admitted" d={steps(draft.admitted)} />
    </svg>
  );
}
