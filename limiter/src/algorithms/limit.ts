// The numbers of a limit that an algorithm needs: how many units in which time.

export type Algorithm =
  | "token-bucket"
  | "fixed-window"
  | "sliding-window"
  | "sliding-log"
  | "leaky-bucket"
  | "concurrency";

export type CalendarUnit = "hour" | "day" | "week" | "month" | "year";

/** A window of the calendar, by the clocks of a time zone. */
export interface Calendar {
  readonly unit: CalendarUnit;
  readonly timezone: string;
  /**
   * On which day a window begins. Of a week: 1 (Monday) to 7. Of a month: 1 to 31; the last day, if the month is shorter. Of a year: month ×
   * 100 + day; the last day of February instead of a 29th that there is not. Of an hour or a day: 1.
   */
  readonly anchor: number;
}

export interface Limit {
  readonly name: string;
  readonly algorithm: Algorithm;
  readonly quota: number;
  /** For concurrency: the slots' time to live. With a calendar: the longest that a window lasts, but for changes of the clocks. */
  readonly windowUs: number;
  /** The capacity of a token-bucket, or how many units may wait in a leaky-bucket. For other algorithms: the quota. */
  readonly burst: number;
  /** The length of a sliding-window's blocks. For other algorithms: 0. */
  readonly precisionUs: number;
  /** Of a fixed-window whose windows are not all of one length. */
  readonly calendar?: Calendar;
  /** Units with which a token-bucket begins. Absent: its burst. */
  readonly initial?: number;
  /** How long the rate of a token-bucket grows from a third of its quota to all of it. Absent: it does not grow. */
  readonly warmUpUs?: number;
}
