// A program that uses the admin API with the types of its document.
import createClient from "openapi-fetch";
import type { paths } from "./node_modules/.admin/api";

declare const process: { argv: string[] };

async function main(baseUrl: string) {
  const client = createClient<paths>({ baseUrl });
  const nodes = await client.GET("/nodes");
  const connectors = await client.GET("/connectors", { params: { query: { show: "quiet", limit: 1 } } });
  const first = connectors.data?.items[0];
  const one = await client.GET("/connectors/{permalink}", { params: { path: { permalink: first?.permalink ?? "" } } });
  const wrong = await client.GET("/requests/{id}", { params: { path: { id: "none" } } });
  const reload = await client.POST("/configuration/reload", { headers: { "Idempotency-Key": "a" } });
  const checked = await client.POST("/configuration/check", {
    body: "connectors: []",
    bodySerializer: (text) => text,
    headers: { "Content-Type": "application/yaml" },
  });
  const ended = await client.POST("/connections/end", { body: { tenant: "acme" } });
  console.log(
    JSON.stringify([
      nodes.data?.items.length, one.data?.secrets, connectors.data?.next !== undefined, wrong.error?.detail?.includes("in 7 days"),
      reload.data?.sha256, checked.data?.wider, ended.data?.ended,
    ]),
  );
}

void main(process.argv[2] ?? "");
