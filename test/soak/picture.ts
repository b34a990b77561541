// Draws a soak: what was admitted, and the memory and the sockets of every process, one below the other, with the time of each
// fault behind them and its name on a line of its own.

import { round, svg, width } from "../../docs/pictures/frame.ts";
import type { Possession } from "./possessions.ts";
import { type FaultName, otherFaults, redisFaults } from "./schedule.ts";
import type { Result } from "./soak.ts";

const left = 150;
const right = 20;
const panelHeight = 110;
const rowHeight = 15;
const panelGap = 46;
const top = 76;
/** Colours of the lines in their order; each can be read in the light and the dark scheme. */
const paints = ["#2563eb", "#0891b2", "#7c3aed", "#c026d3", "#d97706", "#059669"];

interface Line {
  readonly name: string;
  readonly paint: string;
  readonly points: readonly (readonly [atMs: number, value: number])[];
}

interface Panel {
  readonly title: string;
  readonly lines: readonly Line[];
}

export function pictureOf(result: Result): string {
  const lengthMs = result.minutes * 60_000;
  const x = (atMs: number) => round(left + (Math.min(atMs, lengthMs) / lengthMs) * (width - left - right));
  const panels = [admittedOf(result), memoryOf(result), socketsOf(result)];
  const names = [...redisFaults, ...otherFaults];
  const rowsTop = top + panels.length * (panelHeight + panelGap);
  const bottom = rowsTop + names.length * rowHeight;
  const differing = result.facts.filter(({ ok }) => !ok).length;
  const conclusion = differing === 0 ? "all as expected" : `${differing} of ${result.facts.length} not as expected`;
  const says = `seed ${result.seed}, ${result.minutes} minutes: ${conclusion}`;
  return svg(bottom + 44, "A soak", `${says}. ${inWords(result)}`, [
    `<text x="20" y="28"><tspan class="head">Soak</tspan><tspan class="soft" dx="12">${says}</tspan></text>`,
    ...result.happened.map(({ fromMs, toMs, faults }) => {
      const size = `width="${round(Math.max(1, x(toMs) - x(fromMs)))}" height="${bottom - top}"`;
      return `<rect class="band" x="${x(fromMs)}" y="${top}" ${size}><title>${faults.join(" + ")}</title></rect>`;
    }),
    ...panels.flatMap((panel, i) => drawn(panel, top + i * (panelHeight + panelGap), x)),
    ...names.flatMap((name, i) => row(result, name, rowsTop + i * rowHeight, x)),
    `<path class="rule" d="M${left} ${bottom + 0.5}H${width - right}"/>`,
    ...minutesAxis(result.minutes, bottom, x),
  ]);
}

function drawn({ title, lines }: Panel, y: number, x: (atMs: number) => number): string[] {
  const values = lines.flatMap(({ points }) => points.map(([, value]) => value));
  const most = roundUp(Math.max(1, ...values));
  const bottom = y + panelHeight;
  const yOf = (value: number) => round(bottom - (value / most) * panelHeight);
  const legend = lines.map(({ name, paint }, i) => {
    const at = `x="20" y="${y + 28 + i * 14}"`;
    return `<text class="small" ${at}><tspan style="fill:${paint}">■</tspan> ${name}</text>`;
  });
  return [
    `<text x="20" y="${y + 8}">${title}</text>`,
    ...legend,
    `<text class="soft small end" x="${left - 6}" y="${y + 4}">${most}</text>`,
    `<path class="rule" d="M${left} ${y}H${width - right}M${left} ${bottom + 0.5}H${width - right}"/>`,
    ...lines.map(({ points, paint }) => {
      const path = points.map(([atMs, value], i) => `${i === 0 ? "M" : "L"}${x(atMs)} ${yOf(value)}`).join("");
      return `<path style="fill:none;stroke:${paint};stroke-width:1.2" d="${path}"/>`;
    }),
  ];
}

function row({ happened }: Result, name: FaultName, y: number, x: (atMs: number) => number): string[] {
  const marks = happened
    .filter(({ faults }) => faults.includes(name))
    .map(({ fromMs, toMs }) => {
      const size = `width="${round(Math.max(2, x(toMs) - x(fromMs)))}" height="${rowHeight - 6}"`;
      return `<rect style="fill:var(--no)" x="${x(fromMs)}" y="${y + 3}" ${size}/>`;
    });
  return [`<text class="soft small end" x="${left - 6}" y="${y + 11}">${name}</text>`, ...marks];
}

function admittedOf({ seconds, minutes }: Result): Panel {
  // There are as many points as can be distinguished.
  const step = Math.max(1, Math.round(minutes / 6));
  const line = (name: string, paint: string, field: "sent" | "admitted" | "admittedByShare"): Line => {
    const points: [number, number][] = [];
    for (let i = 0; i + step <= seconds.length; i += step) {
      const sum = seconds.slice(i, i + step).reduce((all, second) => all + second[field], 0);
      points.push([(i + step / 2) * 1000, sum / step]);
    }
    return { name, paint, points };
  };
  return {
    title: "requests/s",
    lines: [
      line("sent", "#94a3b8", "sent"),
      line("admitted", paints[0] as string, "admitted"),
      line("by a share", paints[4] as string, "admittedByShare"),
    ],
  };
}

function memoryOf(result: Result): Panel {
  return { title: "memory, MB", lines: byRole(result, ({ memoryKb }) => memoryKb / 1024) };
}

function socketsOf(result: Result): Panel {
  return { title: "open sockets", lines: byRole(result, ({ clients, servers, others }) => clients + servers + others) };
}

function byRole({ samples }: Result, value: (held: Possession) => number): Line[] {
  const roles = [...new Set(samples.flatMap((sample) => Object.keys(sample.roles)))];
  return roles.map((role, i) => ({
    name: role,
    paint: paints[i % paints.length] as string,
    points: samples.flatMap(({ atMs, roles: { [role]: held } }) => (held === undefined ? [] : [[atMs, value(held)]])),
  }));
}

function minutesAxis(minutes: number, bottom: number, x: (atMs: number) => number): string[] {
  const step = Math.ceil(minutes / 10);
  return Array.from({ length: Math.floor(minutes / step) + 1 }, (_, i) => {
    const at = x(i * step * 60_000);
    return `<path class="rule" d="M${at} ${bottom}v6"/><text class="soft small mid" x="${at}" y="${bottom + 20}">${i * step} min</text>`;
  });
}

/** @returns the description for those who cannot see the picture */
function inWords({ facts }: Result): string {
  return facts
    .filter(({ what }) => what.startsWith("memory") || what.startsWith("sockets"))
    .map(({ what, expected, seen }) => `${what}: ${seen}, expected ${expected}`)
    .join("; ")
    .replaceAll("<", "&lt;");
}

function roundUp(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(value));
  return Math.ceil(value / unit) * unit;
}
