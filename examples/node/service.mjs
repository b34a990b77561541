// Has 50 messages a second for a vendor that takes 40 a second from all services together, and asks Sluice before each one. It prints
// a line for each second: how many were allowed, refused, or failed to be asked about.

import { readFileSync } from "node:fs";
import { SluiceClient } from "sluice-client";

const sluice = new SluiceClient({
  url: process.env["SLUICE_URL"] ?? "",
  token: process.env["SLUICE_TOKEN"] || tokenInFile(process.env["SLUICE_TOKEN_FILE"]),
  deadlineMs: 500,
  // The vendor loses what exceeds its rate, so nothing is sent while nobody can be asked.
  onFailure: "deny",
});

/** @type {Set<Promise<void>>} */
const underWay = new Set();
let counts = noneIn(secondNow());
let number = 0;

const timer = setInterval(() => {
  const message = send(number++).finally(() => underWay.delete(message));
  underWay.add(message);
}, 20);
process.once("SIGTERM", stop).once("SIGINT", stop);

/** Every other message can wait for its turn for a moment. The others are sent now or not at all. @param {number} number */
async function send(number) {
  try {
    const decision =
      number % 2 === 0
        ? await sluice.check("sms-vendor", [])
        : await sluice.acquire("sms-vendor", [], { maxWaitMs: 250 });
    // An allowed message would go to the vendor here.
    count(decision.source === "failure" ? "failed" : decision.allowed ? "allowed" : "refused");
  } catch (error) {
    count("failed");
    console.error(String(error));
  }
}

/** Counts in the second in which the answer came, and prints the second before when it is over. @param {"allowed" | "refused" | "failed"} outcome */
function count(outcome) {
  const at = secondNow();
  if (at !== counts.at) {
    print();
    counts = noneIn(at);
  }
  counts[outcome] += 1;
}

async function stop() {
  clearInterval(timer);
  await Promise.all(underWay);
  await sluice.close();
  print();
}

function print() {
  console.log(JSON.stringify({ service: "node", ...counts }));
}

/** @param {number} at */
function noneIn(at) {
  return { at, allowed: 0, refused: 0, failed: 0 };
}

function secondNow() {
  return Math.floor(Date.now() / 1000);
}

/** @param {string | undefined} file */
function tokenInFile(file) {
  if (file) return readFileSync(file, "utf8").trim();
  throw new Error("SLUICE_TOKEN or SLUICE_TOKEN_FILE: expected a caller token or a file with one, got nothing");
}
