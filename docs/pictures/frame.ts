// What every picture is drawn within: paper, letters and colours, which follow the reader's light or dark.

export const width = 860;

const light = { paper: "#ffffff", ink: "#1e293b", soft: "#64748b", line: "#cbd5e1", band: "#f1f5f9" };
const dark = { paper: "#0f172a", ink: "#e2e8f0", soft: "#94a3b8", line: "#334155", band: "#1b2740" };
const lightMarks = { yes: "#2563eb", no: "#dc2626", area: "#bfdbfe", leave: "#047857" };
const darkMarks = { yes: "#60a5fa", no: "#f87171", area: "#1e3a8a", leave: "#34d399" };

function styles(): string {
  const colours = (from: Record<string, string>) =>
    Object.entries(from)
      .map(([name, value]) => `--${name}:${value}`)
      .join(";");
  return [
    `:root{${colours({ ...light, ...lightMarks })}}`,
    `@media (prefers-color-scheme:dark){:root{${colours({ ...dark, ...darkMarks })}}}`,
    "text{font:13px system-ui,sans-serif;fill:var(--ink)}",
    ".head{font-weight:600;font-size:15px}.soft{fill:var(--soft)}.small{font-size:11px}.end{text-anchor:end}.mid{text-anchor:middle}",
    ".paper{fill:var(--paper);stroke:var(--line)}.band{fill:var(--band)}.rule{stroke:var(--line);fill:none}",
    ".quota{stroke:var(--no);stroke-dasharray:5 4;fill:none}",
    ".yes{fill:var(--yes)}.no{fill:none;stroke:var(--no);stroke-width:1.3}",
    ".offered{fill:var(--line)}",
    ".area{fill:var(--area)}.edge{fill:none;stroke:var(--yes);stroke-width:1.6}",
    ".leave{fill:var(--leave)}.mark{fill:none;stroke:var(--ink)}",
  ].join("\n    ");
}

export function svg(height: number, title: string, description: string, content: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title description">
  <title id="title">${title}</title>
  <desc id="description">${description}</desc>
  <style>
    ${styles()}
  </style>
  <rect class="paper" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
  ${content.join("\n  ")}
</svg>
`;
}

export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
