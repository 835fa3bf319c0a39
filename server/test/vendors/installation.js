// Requests an installation access token with GitHub's own client, and writes it to stdout.
// Arguments: the URL of the API, the path of the private key, the app's client ID.
import { readFileSync } from "node:fs";
import { createAppAuth } from "@octokit/auth-app";
import { request } from "@octokit/request";

const [baseUrl, key, appId] = process.argv.slice(2);
const auth = createAppAuth({ appId, privateKey: readFileSync(key, "utf8"), request: request.defaults({ baseUrl }) });
const { token } = await auth({
  type: "installation",
  installationId: 1234,
  repositoryNames: ["hello-world", "octo.repo"],
  permissions: { contents: "read", issues: "write" },
});
process.stdout.write(token);
