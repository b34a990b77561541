// Draws the pictures of ../algorithms.md from what the limiter decides. The same code gives the same
// bytes: a test redraws them and compares.

import type { Algorithm } from "../../limiter/src/algorithms/limit.ts";
import { algorithms } from "../../limiter/src/document/policy-shape.ts";
import { round, svg, width } from "./frame.ts";
import {
  fromSeconds,
  mostInAWindow,
  type Outcome,
  outcomeOf,
  quota,
  runsSeconds,
  sampleSeconds,
  toSeconds,
  windowSeconds,
} from "./trace.ts";

/** File name → SVG. */
export function pictures(): Map<string, string> {
  const outcomes = algorithms.map((algorithm) => outcomeOf(algorithm as Algorithm));
  const files = outcomes.map((outcome) => [`${outcome.limit.algorithm}.svg`, pictureOf(outcome)] as const);
  return new Map([["all.svg", overview(outcomes)], ...files]);
}

interface Words {
  readonly setting: string;
  /** What its lower panel shows, in lines. */
  readonly level: readonly string[];
  /** What to see, in one line. */
  says(outcome: Outcome): string;
}

const words: Readonly<Record<Algorithm, Words>> = {
  "fixed-window": {
    setting: "quota 10, window 10s",
    level: ["used in", "this window"],
    says: (outcome) => `Counts from border to border: ${mostInAWindow(outcome).count} within 10 s across one`,
  },
  "sliding-window": {
    setting: "quota 10, window 10s, precision 2s",
    level: ["counted"],
    says: (outcome) => `At most ${mostInAWindow(outcome).count} in any 10 s; a block of 2 s comes back as a whole`,
  },
  "sliding-log": {
    setting: "quota 10, window 10s",
    level: ["counted"],
    says: (outcome) =>
      `At most ${mostInAWindow(outcome).count} in any 10 s; each unit comes back 10 s after it was taken`,
  },
  "token-bucket": {
    setting: "quota 10, window 10s, burst 10",
    level: ["units in", "the bucket"],
    says: () => "A burst while the bucket lasts, then one a second as it refills",
  },
  "leaky-bucket": {
    setting: "quota 10, window 10s, burst 10",
    level: ["waiting"],
    says: () => "Up to 10 wait for their turn; departures are 1 s apart, however they came",
  },
  concurrency: {
    setting: `quota 10; each request runs ${runsSeconds} s`,
    level: ["in flight"],
    says: (outcome) => `At most ${Math.max(...outcome.levels)} at once; a slot is free when its request has ended`,
  },
};

const left = 128;
const right = 20;
const secondWidth = (width - left - right) / (toSeconds - fromSeconds);
const x = (seconds: number) => left + (seconds - fromSeconds) * secondWidth;

const unitHeight = 8;
const mostOffered = 16;
const requestsTop = 76;
const requestsBottom = requestsTop + mostOffered * unitHeight;

function pictureOf(outcome: Outcome): string {
  const { algorithm } = outcome.limit;
  const { setting, level, says } = words[algorithm];
  const leaky = algorithm === "leaky-bucket";
  const levelTop = requestsBottom + (leaky ? 68 : 34);
  const levelBottom = levelTop + 70;
  const height = levelBottom + 44;
  const admitted = outcome.requests.filter((request) => request.admitted).length;
  const offered = outcome.requests.length;
  return svg(
    height,
    `${algorithm}: what is admitted of a bursty trace`,
    `${setting}. ${says(outcome)}. Of ${offered} requests ${admitted} are admitted: ${perSecondInWords(outcome)}.`,
    [
      ...divisions(outcome, levelBottom),
      `<text x="20" y="28"><tspan class="head">${algorithm}</tspan><tspan class="soft" dx="12">${setting}</tspan></text>`,
      ...legend(`${admitted} admitted`, `${offered - admitted} refused`),
      `<text x="${left}" y="54">${says(outcome)}</text>`,
      `<text class="soft end" x="${left - 12}" y="${requestsBottom - 4}">requests</text>`,
      ...requestMarks(outcome),
      ...bracket(outcome),
      `<path class="rule" d="M${left} ${requestsBottom + 0.5}H${width - right}"/>`,
      ...(leaky ? departures(outcome) : []),
      ...level.map(
        (line, i) =>
          `<text class="soft end" x="${left - 12}" y="${levelBottom - 4 - (level.length - 1 - i) * 16}">${line}</text>`,
      ),
      ...levelPanel(outcome, levelTop, levelBottom),
      ...secondsAxis(levelBottom),
    ],
  );
}

/** What the algorithm divides time into, behind everything else. */
function divisions({ limit }: Outcome, bottom: number): string[] {
  const step =
    limit.algorithm === "fixed-window"
      ? windowSeconds
      : limit.algorithm === "sliding-window"
        ? limit.precisionUs / 1e6
        : 0;
  if (step === 0) return [];
  const bands: string[] = [];
  for (let from = Math.floor(fromSeconds / step) * step; from < toSeconds; from += step) {
    if ((from / step) % 2 === 0) continue;
    const start = Math.max(from, fromSeconds);
    const end = Math.min(from + step, toSeconds);
    const size = `width="${round(x(end) - x(start))}" height="${bottom - requestsTop}"`;
    bands.push(`<rect class="band" x="${round(x(start))}" y="${requestsTop}" ${size}/>`);
  }
  return bands;
}

function legend(yes: string, no: string, noKind = "no"): string[] {
  return [
    `<rect class="yes" x="${width - 240}" y="19" width="12" height="9"/>`,
    `<text x="${width - 222}" y="28">${yes}</text>`,
    `<rect class="${noKind}" x="${width - 124}" y="19" width="12" height="9"/>`,
    `<text x="${width - 106}" y="28">${no}</text>`,
  ];
}

/** A box for each request, those of one second on top of each other, the first at the bottom. */
function requestMarks({ requests }: Outcome): string[] {
  const heights = new Map<number, number>();
  return requests.map(({ atSeconds, admitted }) => {
    const second = Math.floor(atSeconds);
    const below = heights.get(second) ?? 0;
    heights.set(second, below + 1);
    const y = requestsBottom - (below + 1) * unitHeight + 1;
    const [inset, size] = admitted ? [0, 0] : [0.6, 1.2];
    return (
      `<rect class="${admitted ? "yes" : "no"}" x="${round(x(second) + 1.5 + inset)}" y="${round(y + inset)}" ` +
      `width="${round(secondWidth - 3 - size)}" height="${round(unitHeight - 2 - size)}"/>`
    );
  });
}

/** Over the window's length that admitted most; what leaves a leaky-bucket and what runs at once are shown otherwise. */
function bracket(outcome: Outcome): string[] {
  const { algorithm } = outcome.limit;
  if (algorithm === "leaky-bucket" || algorithm === "concurrency") return [];
  const { count, fromSeconds: start } = mostInAWindow(outcome);
  const [from, to] = [round(x(start)), round(x(start + windowSeconds))];
  const beneath = [...perSecond(outcome.requests.map(({ atSeconds }) => atSeconds))]
    .filter(([second]) => second + 1 > start && second < start + windowSeconds)
    .map(([, offered]) => offered);
  const y = requestsBottom - (Math.max(...beneath) + 2) * unitHeight;
  return [
    `<path class="mark" d="M${from} ${y + 6}V${y}H${to}V${y + 6}"/>`,
    `<text class="mid" x="${round((from + to) / 2)}" y="${y - 6}">${count} in 10 s</text>`,
  ];
}

function departures({ requests }: Outcome): string[] {
  const y = requestsBottom + 30;
  const marks = requests
    .filter(({ admitted, departsAtSeconds }) => admitted && departsAtSeconds < toSeconds)
    .map(({ departsAtSeconds }) => `<circle class="leave" cx="${round(x(departsAtSeconds))}" cy="${y - 4}" r="4"/>`);
  return [
    `<text class="soft end" x="${left - 12}" y="${y}">departures</text>`,
    ...marks,
    `<path class="rule" d="M${left} ${y + 8.5}H${width - right}"/>`,
  ];
}

function levelPanel({ levels }: Outcome, top: number, bottom: number): string[] {
  const y = (level: number) => round(bottom - (level * (bottom - top)) / quota);
  let path = `M${left} ${y(levels[0] as number)}`;
  for (let i = 1; i < levels.length; i++) {
    if (levels[i] === levels[i - 1]) continue;
    path += `H${round(x(fromSeconds + i * sampleSeconds))}V${y(levels[i] as number)}`;
  }
  path += `H${width - right}`;
  return [
    `<path class="area" d="${path}V${bottom}H${left}Z"/>`,
    `<path class="edge" d="${path}"/>`,
    `<path class="quota" d="M${left} ${y(quota)}H${width - right}"/>`,
    `<text class="soft small end" x="${left - 12}" y="${y(quota) + 4}">${quota}</text>`,
    `<path class="rule" d="M${left} ${bottom + 0.5}H${width - right}"/>`,
  ];
}

function secondsAxis(bottom: number): string[] {
  const labels: string[] = [];
  for (let at = Math.ceil(fromSeconds / windowSeconds) * windowSeconds; at < toSeconds; at += windowSeconds) {
    labels.push(`<path class="rule" d="M${round(x(at))} ${bottom}v6"/>`);
    labels.push(`<text class="soft small mid" x="${round(x(at))}" y="${bottom + 20}">${at} s</text>`);
  }
  return labels;
}

const rowHeight = 66;
const barHeight = 42;
const firstRow = 64;

/** All of them, as the service behind sees them: a bar for each second. */
function overview(outcomes: readonly Outcome[]): string {
  const bottom = firstRow + outcomes.length * rowHeight;
  const rows = outcomes.flatMap((outcome, row) => overviewRow(outcome, firstRow + (row + 1) * rowHeight - 14));
  const sums = outcomes.map(({ limit, requests }) => {
    const admitted = requests.filter((request) => request.admitted).length;
    return `${limit.algorithm} admits ${admitted}`;
  });
  const [{ requests: offered }] = outcomes as [Outcome];
  return svg(
    bottom + 22,
    "The same bursty trace under six algorithms",
    `Of ${offered.length} requests, with a quota of 10 per 10 s: ${sums.join(", ")}.`,
    [
      '<text class="head" x="20" y="28">What reaches the service behind</text>',
      `<text class="soft" x="20" y="48">the same ${offered.length} requests, quota 10 per 10 s (concurrency: 10 at once, each for ${runsSeconds} s)</text>`,
      ...legend("passed on", "offered", "offered"),
      ...rows,
      ...secondsAxis(bottom - 14),
    ],
  );
}

function overviewRow(outcome: Outcome, bottom: number): string[] {
  const { requests, limit } = outcome;
  const offered = perSecond(requests.map(({ atSeconds }) => atSeconds));
  const passed = perSecond(requests.filter(({ admitted }) => admitted).map(({ departsAtSeconds }) => departsAtSeconds));
  const bar = (kind: string, at: number, count: number) =>
    `<rect class="${kind}" x="${round(x(at) + 1.5)}" y="${round(bottom - (count * barHeight) / mostOffered)}" ` +
    `width="${round(secondWidth - 3)}" height="${round((count * barHeight) / mostOffered)}"/>`;
  return [
    `<text x="20" y="${bottom - 8}">${limit.algorithm}</text>`,
    ...[...offered].map(([at, count]) => bar("offered", at, count)),
    ...[...passed].filter(([at]) => at < toSeconds).map(([at, count]) => bar("yes", at, count)),
    `<path class="rule" d="M${left} ${bottom + 0.5}H${width - right}"/>`,
  ];
}

function perSecond(times: readonly number[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const time of times) counts.set(Math.floor(time), (counts.get(Math.floor(time)) ?? 0) + 1);
  return counts;
}

/** For those who cannot see it: "second 8: 5 of 5, second 9: …". */
function perSecondInWords({ requests }: Outcome): string {
  const admitted = perSecond(requests.filter((request) => request.admitted).map(({ atSeconds }) => atSeconds));
  return [...perSecond(requests.map(({ atSeconds }) => atSeconds))]
    .map(([second, count]) => `second ${second}: ${admitted.get(second) ?? 0} of ${count}`)
    .join(", ");
}
