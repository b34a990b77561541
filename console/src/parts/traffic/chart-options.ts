// How charts of traffic look: a line for each result, in the colours of the page.

import uPlot from "uplot";
import { nowMs } from "../../api/client.ts";
import type { PastStep } from "./past-periods.ts";
import { results } from "./traffic-window.ts";

export interface ChartLook {
  /** Names of the results, in their order. */
  readonly labels: readonly string[];
  readonly locale: string;
  readonly height: number;
  /** Moments with a mark, as seconds since 1970, and what is beside each. They are asked for at each drawing. */
  readonly marks?: () => readonly { readonly atSeconds: number; readonly text: string }[];
  /** What the moments of the chart are apart. */
  readonly step: "second" | PastStep;
}

/** @param element where the chart is: its colours are read there, so another theme needs another chart */
export function chartOptions(element: HTMLElement, { labels, locale, height, marks, step }: ChartLook): uPlot.Options {
  const colour = (name: string) => getComputedStyle(element).getPropertyValue(`--${name}`).trim();
  const day = { month: "numeric", day: "numeric" } as const;
  const time = new Intl.DateTimeFormat(locale, {
    hour: "2-digit",
    minute: "2-digit",
    ...(step === "second" ? { second: "2-digit" } : {}),
    ...(step === "hour" ? day : {}),
  });
  const ofAxis = step === "hour" ? new Intl.DateTimeFormat(locale, day) : time;
  const number = new Intl.NumberFormat(locale);
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height,
    cursor: { y: false },
    series: [
      { label: "", value: (_chart, second) => (second === null ? "" : time.format(second * 1_000)) },
      ...results.map((result, i) => ({
        label: labels[i] ?? result,
        stroke: colour(result),
        width: 2,
        points: { show: false },
        value: (_chart: uPlot, count: number | null) => (count === null ? "" : number.format(count)),
      })),
    ],
    axes: [
      { ...axis, values: (_chart, seconds) => seconds.map((second) => ofAxis.format(second * 1_000)), space: 90 },
      { ...axis, values: (_chart, counts) => counts.map((count) => number.format(count)), size: 60 },
    ],
    scales: {
      // A mark may be later than the beginning of the newest step.
      ...(marks === undefined ? {} : { x: { range: (_chart, least) => [least, nowMs() / 1_000] } }),
      y: { range: (_chart, _least, most) => [0, Math.max(1, most * 1.1)] },
    },
    ...(marks === undefined ? {} : { hooks: { draw: [(chart) => drawMarks(chart, marks(), colour("text"))] } }),
  };
}

function drawMarks(
  { ctx, bbox, valToPos }: uPlot,
  marks: readonly { readonly atSeconds: number; readonly text: string }[],
  colour: string,
): void {
  const { pxRatio } = uPlot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.fillStyle = colour;
  ctx.lineWidth = pxRatio;
  ctx.setLineDash([3 * pxRatio, 3 * pxRatio]);
  ctx.font = `${11 * pxRatio}px system-ui, sans-serif`;
  let labelsEnd = Number.NEGATIVE_INFINITY;
  for (const { atSeconds, text } of [...marks].sort((a, b) => a.atSeconds - b.atSeconds)) {
    const x = Math.round(valToPos(atSeconds, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    // Labels that would lie on one another are left out; the list below has all.
    if (x < labelsEnd) continue;
    ctx.fillText(text, x + 3 * pxRatio, bbox.top + 10 * pxRatio);
    labelsEnd = x + ctx.measureText(text).width + 8 * pxRatio;
  }
  ctx.restore();
}
