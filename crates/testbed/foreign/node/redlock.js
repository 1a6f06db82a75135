// The npm package redlock. Arguments: HOST:PORT[,HOST:PORT...].
"use strict";

const readline = require("readline");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock");

const RETRY_DELAY_MS = 50;
const CYCLE_LEASE_MS = 10_000;

const clients = process.argv[2].split(",").map((address) => {
  const [host, port] = address.split(":");
  const client = new Redis({ host, port: Number(port) });
  client.on("error", (problem) => console.error(problem.message));
  return client;
});
const redlock = new Redlock(clients, { retryDelay: RETRY_DELAY_MS, retryJitter: RETRY_DELAY_MS });
redlock.on("error", (problem) => console.error(problem.message));

const held = [];

async function acquire(name, waitMs, leaseMs) {
  const retryCount = Math.ceil(waitMs / RETRY_DELAY_MS);
  try {
    return await redlock.acquire([name], leaseMs, { retryCount });
  } catch (problem) {
    if (problem.name === "ExecutionError") return null;
    throw problem;
  }
}

async function release(lock) {
  try {
    await lock.release();
    return true;
  } catch (problem) {
    if (problem.name === "ExecutionError") return false;
    throw problem;
  }
}

/** Acquires and releases for some time; gives the nanoseconds of each cycle. */
async function cycles(milliseconds, name) {
  const took = [];
  let now = process.hrtime.bigint();
  const end = now + BigInt(milliseconds) * 1_000_000n;
  while (now < end) {
    const lock = await acquire(name, 60_000, CYCLE_LEASE_MS);
    if (lock === null) throw new Error("not obtained within a minute");
    await release(lock);
    const before = now;
    now = process.hrtime.bigint();
    took.push(now - before);
  }
  return took;
}

async function answer(line) {
  const [word, ...rest] = line.split(" ");
  switch (word) {
    case "acquire": {
      const lock = await acquire(rest[0], Number(rest[1]), Number(rest[2]));
      if (lock === null) return "busy";
      held.push(lock);
      return "got";
    }
    case "release":
      return (await release(held.pop())) ? "released" : "not-mine";
    case "cycles":
      return "cycles " + (await cycles(Number(rest[0]), rest[1])).join(" ");
    case "exit":
      return process.exit(0);
    default:
      throw new Error("no such command: " + word);
  }
}

async function converse() {
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      console.log(await answer(line));
    } catch (problem) {
      console.log("error " + String(problem).replace(/\s+/g, " "));
    }
  }
  process.exit(0);
}

converse();
