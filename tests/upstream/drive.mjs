// Upstream's compiled client at one queue: node drive.mjs DIST QUEUE, calls as JSON on stdin, answers as JSON on stdout.
// A call is [type, content, options]; all are sent at once. Its end is the answer, or the error's code.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [dist, queue] = process.argv.slice(2);
const { EfritClient } = await import(pathToFileURL(`${dist}/efrit-client.js`).href);
const client = new EfritClient("default", { queue_dir: queue, workspace_dir: queue }, [queue]);
const calls = JSON.parse(readFileSync(0, "utf-8"));
const ends = await Promise.all(
  calls.map((call) => client.execute(...call).catch((error) => ({ code: error.code, message: error.message }))),
);
const [stats, healthy] = [await client.getQueueStats(), await client.healthCheck()];
console.log(JSON.stringify({ ends, stats, healthy }));
