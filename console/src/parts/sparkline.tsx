// A small line of numbers over time, without axes. Its label says what it shows to who cannot see it.

const width = 120;
const height = 24;

export function Sparkline({
  values,
  most = Math.max(1, ...values),
  label,
}: {
  /** In order of time, evenly spaced. */
  values: readonly number[];
  /** What the top of the line stands for. */
  most?: number;
  label: string;
}) {
  const step = width / Math.max(1, values.length - 1);
  const points = values.map(
    (value, i) => `${(i * step).toFixed(1)},${(height - 1 - (value / most) * (height - 2)).toFixed(1)}`,
  );
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={label}
      preserveAspectRatio="none"
    >
      <polyline points={points.join(" ")} />
    </svg>
  );
}
