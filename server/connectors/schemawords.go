package connectors

import (
	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// words has the meaning of a member, and which values it may have besides what the type of its field says.
type words struct {
	text string
	// ifMissing is the value that counts without the member, or nil.
	ifMissing any
	// values are all values that a text may have, and each has a sentence about each of them. With a pattern too, other texts that have
	// it are allowed.
	values, each []string
	// not are texts that are none of values, and have the pattern nevertheless.
	not []string
	// pattern is a regular expression of texts, or of the texts of a list. wrong is the message for a text without it.
	pattern, wrong string
	// least and most are the bounds of the length of a list.
	least, most int
	// change adds what else the loader checks of an object.
	change func(*schema)
}

// Patterns of texts. They have no more than what RE2 and JavaScript both understand.
const (
	httpURL     = `^https?://` // also http, because the operator decides whether that is allowed
	wantedURL   = "This is not a URL: it begins with https://."
	anyTemplate = `\{\{`
	// closedTemplate matches texts of which each {{ has its }}.
	closedTemplate = `^([^{]|\{[^{]|\{\{([^}]|\}[^}])*\}\})*\{?$`
	notClosed      = "There is no }} that ends a {{."
	// insideURL matches https URLs, and those of plain http whose host may be inside, by its name.
	insideURL   = `^(https://|http://([^./:?]+|[0-9.]+|\[[^/]*|[^/]*\.(internal|local|localhost|lan|svc|test|home\.arpa))([:/?]|$))`
	namesSecret = "This names no secret: write \"{{ get_secret('NAME') }}\", and keep the value in a store of secrets."
)

// described has the words about each member of a file by its path, and objects without words that are checked. The members of a type of
// store are under PATH(TYPE).
var described = map[string]words{
	"": {change: func(s *schema) {
		s.AllOf = append(s.AllOf, either("This has no connectors: it needs the member connectors, or connectors_dir.", "connectors", "connectors_dir"),
			secureURLs(&schema{Properties: namedSchemas{{"connectors", &schema{Items: secureURLs(&schema{Properties: namedSchemas{
				{"url", &schema{Pattern: insideURL, PatternErrorMessage: "This is plain http: use https, or name the host in plain_http of egress."}},
			}})}}}}))
	}},

	"plugins":        {text: "Plugins with further auth types: compiled modules, or plugins from registries.", most: maxPlugins},
	"plugins[]":      {change: changePlugin},
	"plugins[].path": {text: "Path of a compiled plugin, from the directory of this file."},
	"plugins[].name": {text: "Name of a plugin from a registry. keywright.lock has the plugin under this name."},
	"plugins[].ref":  {text: "Reference of a plugin in a registry, such as registry.example/acme/hmac:1.2.0. keywright plugin add writes it."},
	"plugins[].sha256": {
		text:    "SHA-256 digest that the file of the plugin must have, in hexadecimal.",
		pattern: `^[0-9A-Fa-f]{64}$`, wrong: "This is not 64 hexadecimal digits.",
	},
	"plugins[].grants": {
		text: "Rights of the plugin beyond the default. A plugin with one of them can do more with secrets.", values: abi.Grants,
		each: []string{grantMeanings[abi.Grants[0]], grantMeanings[abi.Grants[1]]},
	},
	"plugins[].limits":                {text: "Limits of this plugin alone. None may be above the limit of the host."},
	"plugins[].limits.fuel":           {text: "Work of a call, in units of about 0.27 ns."},
	"plugins[].limits.call_time":      {text: "Time of a call with its token requests, such as 2s."},
	"plugins[].limits.memory_bytes":   {text: "Memory of a call, in bytes."},
	"plugins[].limits.token_requests": {text: "Token requests of a call."},

	"limits":                      {text: "Limits of what all connectors share."},
	"limits.concurrent_exchanges": {text: "Calls that ask token endpoints at one time. A connector and an origin have half of them at most.", ifMissing: 64},
	"limits.concurrent_keys":      {text: "Calls that use a key of the store of keys at one time.", ifMissing: 64},
	"limits.tokens_bytes":         {text: "Memory of the token cache, in bytes.", ifMissing: 64 << 20},
	"limits.mutations_bytes":      {text: "Memory of what calls of plugins leave for the next request of their user, in bytes.", ifMissing: 64 << 20},
	"limits.scanners_bytes":       {text: "Memory of the tables by which answers are searched for credentials, in bytes.", ifMissing: 64 << 20},

	"gateway": {text: "Settings of keywright serve: host names, users, TLS.", change: changeGateway},
	"gateway.hosts": {
		text:    "Host names at which callers may reach the gateway, with a port if it must be that one. Without it, those of the loopback.",
		pattern: `^[^/ @*]+$`, wrong: "This is not the name of a host, such as gateway.example.com or localhost:8080.",
	},
	"gateway.origins": {
		text:    "Origins of pages that may call the gateway from a browser, such as https://app.example.com. Without it, none but its own.",
		pattern: `^[A-Za-z][A-Za-z0-9+.-]*://[^/*?# ]+$`, wrong: "This is not an origin: scheme and host, without a slash at the end, such as https://app.example.com.",
	},
	"gateway.consent": {text: "Where users connect their accounts, for connectors that need the consent of each user."},
	"gateway.consent.url": {
		text:    "Origin at which browsers reach the gateway, such as https://gateway.example.com. Authorization servers send browsers back to it.",
		pattern: httpURL, wrong: wantedURL,
	},
	"gateway.consent.return_to": {
		text:    "Page to which a browser goes after a consent. Without it, the gateway shows a page of its own.",
		pattern: httpURL, wrong: wantedURL,
	},
	"gateway.consent.plain_http": {text: "The URLs of consent may be of plain http. Who can read it can take over what users connect."},
	"gateway.user":               {text: "How the gateway finds the user of a request. Without it, requests have no user.", change: changeUser},
	"gateway.user.type": {
		text: "Where the user of a request comes from.", values: []string{identity.ModeNone, identity.ModeJWT, identity.ModeHeader},
		each: []string{"Requests have no user.", "The user is that of a session token, which the gateway verifies.", "A proxy in front of the gateway names the user in headers."},
	},
	"gateway.user.jwt": {text: "Where session tokens are, and what they must be.", change: changeJWT},
	"gateway.user.jwt.bearer": {
		text: "Take the token from the header Authorization: Bearer. It is true unless cookie is there.",
	},
	"gateway.user.jwt.cookie":    {text: "Name of the cookie with the token."},
	"gateway.user.jwt.jwks_file": {text: "Path of a file with the keys that sign session tokens, a JWK Set."},
	"gateway.user.jwt.jwks_url": {
		text:    "URL of the keys that sign session tokens, a JWK Set. Without it and jwks_file, the metadata of the issuer names the keys.",
		pattern: httpURL, wrong: wantedURL,
	},
	"gateway.user.jwt.issuer":    {text: "Value that the claim iss of a token must have. If it is an https URL with metadata, the keys are found by it."},
	"gateway.user.jwt.audiences": {text: "Audiences of which a token must have one, in its claim aud. Without it, a token for another service would count here."},
	"gateway.user.jwt.algorithms": {
		text: "Algorithms of signatures that count. Without it, all that are asymmetric. HS256, HS384 and HS512 need jwks_file.", values: identity.Algorithms(),
	},
	"gateway.user.jwt.claims":            {text: "Names of the claims that become the fields of the user."},
	"gateway.user.jwt.claims.id":         {text: "Claim that is user.id. A token without it is refused.", ifMissing: "sub"},
	"gateway.user.jwt.claims.email":      {text: "Claim that is user.email.", ifMissing: "email"},
	"gateway.user.jwt.claims.username":   {text: "Claim that is user.username.", ifMissing: "preferred_username"},
	"gateway.user.jwt.claims.first_name": {text: "Claim that is user.first_name.", ifMissing: "given_name"},
	"gateway.user.jwt.claims.last_name":  {text: "Claim that is user.last_name.", ifMissing: "family_name"},
	"gateway.user.jwt.claims.tenant_id":  {text: "Claim that is tenant_id. Without it, users have no tenant."},
	"gateway.user.jwt.token_hosts":       {text: "Hosts of token endpoints that may get the session token, which connectors name as user.token."},
	"gateway.user.header":                {text: "Headers with the user, and the proxies that set them.", change: changeHeader},
	"gateway.user.header.proxies":        {text: "Addresses of the proxies whose headers count, such as 10.1.2.0/24. Each must replace what the browser sent."},
	"gateway.user.header.required":       {text: "Refuse requests without a user.", ifMissing: true},
	"gateway.user.header.id":             {text: "Header with the ID of the user."},
	"gateway.user.header.email":          {text: "Header with the email address of the user."},
	"gateway.user.header.username":       {text: "Header with the name under which the user logs in."},
	"gateway.user.header.first_name":     {text: "Header with the first name of the user."},
	"gateway.user.header.last_name":      {text: "Header with the last name of the user."},
	"gateway.user.header.tenant_id":      {text: "Header with the tenant of the user."},
	"gateway.tls":                        {text: "Certificate of the listener for callers. Without it, callers use plain HTTP, and a proxy in front has TLS."},
	"gateway.tls.cert":                   {text: "Path of the certificate with its chain, in PEM."},
	"gateway.tls.key":                    {text: "Path of the private key, in PEM. It may not be open to everybody on the machine."},
	"gateway.traces": {
		text:    "URL of a collector for traces, OTLP over HTTP, such as http://localhost:4318/v1/traces.",
		pattern: httpURL, wrong: "This is not the URL of a collector, with its path, such as http://localhost:4318/v1/traces.",
	},
	"gateway.access_log":       {text: "Log each request of a caller, also those that succeed.", ifMissing: false},
	"gateway.access_log_users": {text: "Log the ID of the user with each request. It is personal data. It needs access_log.", ifMissing: false},
	"gateway.audit":            {text: "Log of the uses of credentials, chained by hashes: a file, or stdout."},
	"gateway.audit.file":       {text: "Path of the audit log. Its directory must exist."},
	"gateway.audit.stdout":     {text: "Write the audit log to stdout, which then has nothing else.", ifMissing: false},
	"gateway.audit.on_error": {
		text: "What happens to requests while the audit log cannot be written.", values: []string{AuditRefuse, AuditContinue}, ifMissing: AuditRefuse,
		each: []string{"Requests are refused: no credential is used without a line.", "Requests are answered, and lines that do not fit into memory are lost."},
	},

	"secrets": {text: "Stores of secrets. get_secret asks them in this order. Without it, secrets are environment variables.", most: maxStores},
	"secrets[].type": {
		text: "Type of the store.",
		each: []string{
			"A secret NAME is the environment variable KEYWRIGHT_SECRET_NAME.", "A directory with a file for each secret.",
			"A file with all secrets, encrypted with age.", "The key-value engine of Vault or OpenBao, version 2.",
		},
	},
	"secrets[](dir).path":              {text: "Path of the directory."},
	"secrets[](age).file":              {text: "Path of the file: a JSON object of names and values, encrypted with age."},
	"secrets[](age).identity":          {text: "Path of the file with the key that decrypts it. It may not be open to everybody on the machine."},
	"secrets[](vault)":                 {change: changeVault},
	"secrets[](vault).address":         {text: "URL of the server, such as https://vault.example.com:8200.", pattern: httpURL, wrong: wantedURL},
	"secrets[](vault).namespace":       {text: "Namespace of Vault Enterprise or OpenBao."},
	"secrets[](vault).ca_file":         {text: "Path of the certificates in PEM with which the server's certificate is verified. Without it, those of the system."},
	"secrets[](vault).mount":           {text: "Mount path of the key-value engine.", ifMissing: "secret"},
	"secrets[](vault).prefix":          {text: "A secret NAME is a field of the path PREFIX/NAME."},
	"secrets[](vault).field":           {text: "Field of that path with the value.", ifMissing: "value"},
	"secrets[](vault).path":            {text: "Path with all secrets: a secret NAME is its field NAME. It takes the place of prefix and field."},
	"secrets[](vault).transit":         {text: "Keys that stay in Vault, for get_key. One store of the file may have it."},
	"secrets[](vault).transit.mount":   {text: "Mount path of the transit engine.", ifMissing: "transit"},
	"secrets[](vault).token_file":      {text: "Path of a file with a token, such as a sink of Vault Agent. Its mode must be 0640 or less."},
	"secrets[](vault).approle":         {text: "Login with the auth method approle."},
	"secrets[](vault).approle.mount":   {text: "Mount path of the auth method.", ifMissing: "approle"},
	"secrets[](vault).approle.role_id": {text: "ID of the role."},
	"secrets[](vault).approle.secret_id_file": {
		text: "Path of a file with the secret ID, which must allow more than one use. Its mode must be 0640 or less.",
	},
	"secrets[](vault).kubernetes":            {text: "Login with the auth method kubernetes, as the service account of the process."},
	"secrets[](vault).kubernetes.mount":      {text: "Mount path of the auth method.", ifMissing: "kubernetes"},
	"secrets[](vault).kubernetes.role":       {text: "Name of the role."},
	"secrets[](vault).kubernetes.token_file": {text: "Path of the token of the service account. Without it, the path at which Kubernetes mounts it."},
	"secrets[](vault).timeout":               {text: "Time of one lookup, with a login if it needs one.", ifMissing: "10s"},
	"secrets[](vault).remember":              {text: "Time for which an answer is used again. A rotated secret counts after it at the latest.", ifMissing: defaultRemember.String()},

	"state": {text: "Store of tokens and grants beyond the end of the process, which several processes may share. Without it, they are in memory."},
	"state.type": {
		text: "Type of the store.", each: []string{"A file of SQLite, for the processes of one machine.", "A database of PostgreSQL, for any number of nodes."},
	},
	"state(sqlite).keys":    stateKeysWords,
	"state(sqlite).lease":   leaseWords,
	"state(sqlite).path":    {text: "Path of the file, which may not be on a network file system. Two more files are made beside it."},
	"state(postgres).keys":  stateKeysWords,
	"state(postgres).lease": leaseWords,
	"state(postgres).url": {
		text:    "URL of the database: postgres://user:password@host:5432/database?sslmode=verify-full. With a password, all of it must be a secret.",
		pattern: anyTemplate + `|^postgres(ql)?://`, wrong: "This is not a URL of PostgreSQL, such as postgres://user:password@host:5432/database?sslmode=verify-full.",
	},
	"state(postgres)": {change: func(s *schema) { s.Properties.of("connections").Minimum = 2 }},
	"state(postgres).connections": {
		text: "Maximum number of connections of a process, beside the one that waits for changes. At least 2.", ifMissing: 16,
	},
	"state(postgres).pooler": {text: "A pooler such as PgBouncer lends connections for a transaction.", ifMissing: false},

	"egress": {text: "Where all connectors may connect to, with their token endpoints and issuers. Without it, public addresses only."},
	"egress.allow": {
		text:    "Addresses or ranges of addresses, such as 10.20.0.0/16, that may be dialled beside public ones. The address that a name leads to counts.",
		pattern: `^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$`, wrong: "This is neither an address nor a range of addresses, such as 10.20.0.0/16.",
	},
	"egress.plain_http": {
		text:    "Hosts, such as keycloak:8080, whose URLs may be of plain http. Without a port, any port is meant. Their addresses have to be in allow, too.",
		pattern: `^[^/?#@* ]+$`, wrong: "This is not the name of a host, such as keycloak or keycloak:8080.",
	},
	"egress.ca_file": {text: "Path of certificates in PEM, of authorities that are trusted beside those of the system."},
	"egress.proxy": {
		text:    "URL of the proxy of all connections: http, https, socks5 or socks5h. none is for no proxy. The proxies of the environment are ignored.",
		pattern: `^(none|(https?|socks5h?)://[^@/?#]+/?)$`, wrong: "This is no URL of a proxy, such as http://proxy.example:3128, or none.",
	},

	"connectors_dir": {text: "A directory whose files NAME.yaml add connectors, in the order of their names."},
	"connectors":     {text: "The connectors, each an external API with its authentication.", least: 1},
	"connectors[]":   {change: changeConnector},
	"connectors[].name": {
		text: "Name of the connector for people. Without permalink, the permalink is made of it.",
	},
	"connectors[].permalink": {
		text:    "Name of the connector in URLs of the gateway: /connectors/PERMALINK. a to z, 0 to 9 and hyphens.",
		pattern: `^[a-z0-9][a-z0-9-]{0,63}$`, wrong: "This may have a to z, 0 to 9 and hyphens, at most 64, and begins with no hyphen.",
	},
	"connectors[].url": {
		text:    "URL of the API. Its path and query may have templates, its scheme and host may not.",
		pattern: httpURL, wrong: wantedURL,
	},
	"connectors[].method": {
		text: "Methods that callers may use: one, or a list. With GET, HEAD is allowed too.", ifMissing: "GET",
		values: methods, not: slipsOf(methods), pattern: "^[A-Z0-9!#$%&'*+.^_`|~-]+$", wrong: "This is not a method: they are in capitals, as in GET.",
	},
	"connectors[].paths": {
		text:    "Paths that callers may append to the path of url, such as /users/* or /open/**. * is any one segment, *%2F* one that may have encoded slashes, ** at the end any rest. Without it, none.",
		pattern: `^/([^?#%\\{}]|\*%2F\*)*$`, wrong: "This is not a pattern of a path: it begins with a slash, as in /users/* or /**.",
	},
	"connectors[].headers":        {text: "Headers of the request. Of a caller's headers, only Accept and Content-Type pass, and those that are overridable here."},
	"connectors[].headers[].name": {text: "Name of the header or query parameter."},
	"connectors[].headers[].value": {
		text: "Value, a template. If its result is empty, nothing is sent.", pattern: closedTemplate, wrong: notClosed,
	},
	"connectors[].headers[].overridable": {text: "A caller may replace the value. It is for values without a secret and without the user.", ifMissing: false},
	"connectors[].headers[].repeated":    {text: "A caller may give an overridable one several times.", ifMissing: false},
	"connectors[].query": {
		text: "Parameters that are appended to the query of url. Of a caller's parameters, only those pass that are overridable here.",
	},
	"connectors[].auth":            {text: "How the API is authenticated to: an auth type, and its configuration. type: none is for an API that asks nothing."},
	"connectors[].auth.type":       {text: "Auth type of the API."},
	"connectors[].tls":             {text: "Client certificate, and the authorities that servers are verified with.", change: changeTLS},
	"connectors[].tls.certificate": {text: "Template of the client certificate in PEM, and behind it the certificates of its issuers."},
	"connectors[].tls.key":         {text: "Template of the private key in PEM, without a passphrase. It names a secret.", pattern: anyTemplate, wrong: namesSecret},
	"connectors[].tls.pkcs12":      {text: "Template of a file of PKCS #12 (.p12, .pfx) in Base64, in place of certificate and key. It names a secret.", pattern: anyTemplate, wrong: namesSecret},
	"connectors[].tls.passphrase":  {text: "Template of the passphrase of pkcs12."},
	"connectors[].tls.ca":          {text: "Template of certificates of authorities in PEM, in place of the system's."},
	"connectors[].tls.for": {
		text: "What it is for: api, token, or a list of both. Without it, both.", values: []string{host.TLSForAPI, host.TLSForToken},
		each: []string{"The requests to the API.", "The requests to token endpoints."},
	},
	"connectors[].egress":           {text: "Where this connector may connect to, with its token endpoint and its issuer. A member takes the place of that of the file."},
	"connectors[].request":          {text: "Template of the request's body, with user, tenant_id, request and body_text. Quote its values: {{ json_encode(body_text) }}."},
	"connectors[].streams":          {text: "Answers that are streams of events, text/event-stream."},
	"connectors[].streams.silence":  {text: "Maximum time between two pieces of a stream, in place of timeout.", ifMissing: "10m"},
	"connectors[].response":         {text: "How the answer is shaped.", change: changeResponse},
	"connectors[].response.filter":  {text: "Expression over each record. Records for which it is not true are left out."},
	"connectors[].response.records": {text: "Member of the answer that has the records. Without it, the answer is a list of records."},
	"connectors[].response.body":    {text: "Expression or template over response.body, response.status_code and response.headers, which makes the body for the caller."},
	"connectors[].response.content_type": {
		text: "Content-Type of the body that response.body makes, such as text/html; charset=utf-8.", pattern: `^[^/ ]+/[^/ ;]+`, wrong: "This is no media type, such as text/html; charset=utf-8.",
	},
	"connectors[].response.headers": {
		text: "Further headers of answers that callers get, and pages of origins may read, such as X-RateLimit-*. A * at the end is any rest of a name.", most: 50,
		pattern: "^([A-Za-z0-9!#$%&'+.^_`|~-]+|[A-Za-z0-9!#$%&'+.^_`|~-]{3,}-\\*)$", wrong: "This is not the name of a header, or names with a * after a hyphen, such as X-RateLimit-*.",
	},
	"connectors[].timeout": {
		text: "Time of the token exchange, of each wait for the API, and of shaping a body, each for itself.", ifMissing: "15s",
	},
	"connectors[].refresh_ahead": {text: "Time before the end of a cached token at which it is replaced, while requests go on with it, such as 2m."},
	"connectors[].resend": {
		text:   "What becomes of a refresh token that was sent without an answer that says whether it was redeemed. Without this, a later request sends it again.",
		values: []string{gateway.ResendNever}, each: []string{"It is not sent again: the grant is lost, and its owner connects again."},
	},
	"connectors[].limits":                {text: "Limits of the use of this connector. Each process counts for itself."},
	"connectors[].limits.per_user":       {text: "Requests per second of one user. All requests without a user count as those of one user."},
	"connectors[].limits.total":          {text: "Requests per second of all users together."},
	"connectors[].limits.request_bytes":  {text: "Size of a caller's body, in bytes.", ifMissing: 8 << 20},
	"connectors[].limits.response_bytes": {text: "Size of an answer's body that is shaped, in bytes.", ifMissing: 8 << 20},
	"connectors[].limits.concurrent":     {text: "Requests at one time, of which one user may have a quarter.", ifMissing: 256},
}

var stateKeysWords = words{
	text:  "State keys, each a secret of 32 bytes in base64. The first seals what is written, all of them open what is read. All nodes need the same.",
	least: 1, most: maxStateKeys, pattern: anyTemplate, wrong: namesSecret,
}

var leaseWords = words{text: "How long one node alone may ask a token endpoint for a token, from 3s to 10m. A token request has two thirds of it.", ifMissing: "30s"}
