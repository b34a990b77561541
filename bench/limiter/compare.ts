// Compares the product with code written by hand for the same algorithm: in turns, by the ratios within rounds.
import { median, ratio, spread } from "../statistics.ts";
import type { Case } from "./cases.ts";

export const sides = ["product", "by-hand"] as const;
export type Side = (typeof sides)[number];

/** What one side used in one round. */
export interface Taken {
  /** CPU per decision. */
  readonly ns: number;
  /** Share of the decisions that admitted. */
  readonly admitted: number;
}

/** One place where the limiter runs. */
export interface Place {
  readonly name: string;
  readonly unit: "ns" | "µs";
  /** @throws if the two sides do not decide the same, since their times would not be comparable */
  check(each: Case): Promise<void>;
  measure(each: Case): Promise<Record<Side, Taken>>;
}

export interface Comparison {
  readonly place: string;
  readonly unit: "ns" | "µs";
  readonly case: string;
  readonly productNs: number;
  readonly byHandNs: number;
  readonly ratio: number;
  /** The spread of the rounds' ratios: (most − least) ÷ median. */
  readonly ratioSpread: number;
  readonly admitted: number;
  readonly met: boolean;
  readonly rounds: readonly Record<Side, Taken>[];
}

export const mostRatio = 1.1;

export function compare(place: Place, each: Case, rounds: readonly Record<Side, Taken>[]): Comparison {
  const product = rounds.map((round) => round.product);
  const byHand = rounds.map((round) => round["by-hand"]);
  const toByHand = ratio(product, byHand, ({ ns }) => ns);
  return {
    place: place.name,
    unit: place.unit,
    case: each.name,
    productNs: median(product.map(({ ns }) => ns)),
    byHandNs: median(byHand.map(({ ns }) => ns)),
    ratio: toByHand,
    ratioSpread: spread(rounds.map((round) => round.product.ns / round["by-hand"].ns)),
    admitted: median(product.map(({ admitted }) => admitted)),
    met: toByHand <= mostRatio,
    rounds,
  };
}

/** @throws with the first line in which two listings of decisions differ, if there is one */
export function mustDecideAlike(where: string, product: string, byHand: string): void {
  if (product === byHand) return;
  const ours = product.split("\n");
  const theirs = byHand.split("\n");
  const at = ours.findIndex((line, i) => line !== theirs[i]);
  throw new Error(
    `${where}: decision ${at + 1}: the product says "${ours[at]}", what is written by hand "${theirs[at]}"`,
  );
}
