package vendors

import (
	"bytes"
	"context"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/google/go-cmp/cmp"
	"github.com/oracle/oci-go-sdk/v65/common"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
	"github.com/keywright/keywright/server/internal/trial"
)

// A signed has a request that a connector of the catalogue has sent, for a judge in products.mjs.
type signed struct {
	Judge        string            `json:"judge"`
	Method       string            `json:"method"`
	Target       string            `json:"target"`
	Base         string            `json:"base"`
	Header       http.Header       `json:"header"`
	Body         string            `json:"body"`
	Key          string            `json:"key"`
	Public       string            `json:"public"`
	Algorithm    string            `json:"algorithm"`
	Placeholders map[string]string `json:"set"`
	// Grant has the path and the body of the token request in front of it, if there is one.
	Grant string `json:"grant"`
}

// keeper is a transport that keeps the last request, and the body of the one before. Its answer is that of a token endpoint.
type keeper struct {
	mu          sync.Mutex
	request     *http.Request
	body, grant string
}

// issued is a token without a signature.
const issued = "eyJhbGciOiJub25lIn0.eyJpYXQiOjEsImV4cCI6Mn0."

// RoundTrip implements http.RoundTripper.
func (k *keeper) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.request != nil {
		k.grant = k.request.URL.Path + " " + k.body
	}
	k.request, k.body = r, string(body)
	answer := `{"access_token":"` + issued + `","token_type":"Bearer","expires_in":3600}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// A product is an entry of the catalogue as a user has filled it in.
type product struct {
	name    string
	set     map[string]string
	secrets host.MapSecrets
	// edit has texts of the connector and what replaces them.
	edit []string
}

// send sends requests with the connector of a product, and returns them as they were sent. The first word of a text is the method, the
// second the target, and the rest is the body.
func (p product) send(t *testing.T, requests ...string) (all []signed) {
	t.Helper()
	api := testworld.Must(catalogue.Find(p.name))(t)
	api = testworld.Must(api.With(catalogue.Options{Set: p.set}))(t)
	head := "connectors:\n"
	if api.NeedsState() {
		head = "state: {type: sqlite, path: state.db, keys: [\"{{ get_secret('state-key') }}\"]}\n" + head
	}
	file := testworld.Must(connectors.AddConnector(t.Context(), []byte(head), strings.NewReplacer(p.edit...).Replace(api.Item())))(t)
	k := &keeper{}
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", file, connectors.Options{
		WithoutStore: true, Host: host.Config{Secrets: p.secrets, Base: k, UserAgent: "keywright/1"},
	}))(t)
	t.Cleanup(func() { _ = set.Close(context.WithoutCancel(t.Context())) })
	for _, text := range requests {
		method, rest, _ := strings.Cut(text, " ")
		target, body, _ := strings.Cut(rest, " ")
		path, query, _ := strings.Cut(target, "?")
		header := http.Header{}
		if body != "" {
			header.Set("Content-Type", "application/json")
		}
		out := testworld.Must(trial.NewOutgoing(t.Context(), set.Connectors[0], trial.Incoming{Method: method, Path: path, Query: query, Header: header, Trusted: true}))(t)
		r := testworld.Must(out.Request(t.Context(), strings.NewReader(body)))(t)
		response := testworld.Must(set.Connectors[0].Upstream().Transport(k).RoundTrip(r))(t)
		testworld.Check(t, response.Body.Close())
		header = k.request.Header.Clone()
		header.Set("Host", k.request.URL.Host)
		all = append(all, signed{Method: method, Target: k.request.URL.RequestURI(), Header: header, Body: k.body, Placeholders: p.set, Grant: k.grant})
	}
	return all
}

// keyText returns a private key in PEM, and its public half.
func keyText(t *testing.T, key crypto.Signer) (private, public string) {
	t.Helper()
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return encode("PRIVATE KEY", testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)), encode("PUBLIC KEY", testworld.Must(x509.MarshalPKIXPublicKey(key.Public()))(t))
}

// judged compares the credentials with those that products.mjs makes with the products' own clients.
func judged(t *testing.T, requests []signed) {
	t.Helper()
	client := exec.CommandContext(t.Context(), "node", "products.mjs")
	client.Stdin = bytes.NewReader(testworld.Must(json.Marshal(requests))(t))
	var complaints bytes.Buffer
	client.Stderr = &complaints
	out, err := client.Output()
	if err != nil {
		t.Fatalf("the clients do not run (make deps installs them): %v\n%s", err, complaints.String())
	}
	var pairs [][2]any
	testworld.Check(t, json.Unmarshal(out, &pairs))
	if len(pairs) != len(requests) {
		t.Fatalf("%d requests, %d judgements", len(requests), len(pairs))
	}
	for i, pair := range pairs {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" || pair[0] == nil {
			t.Errorf("%s %s: (-client +Keywright)\n%s", requests[i].Judge, requests[i].Target, diff)
		}
	}
}

// The connectors of the catalogue send what the products' own clients for Node send.
func TestClientsForNode(t *testing.T) {
	rsaKey, _ := keyText(t, newKey(t))
	_, edSigner, err := ed25519.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	edKey, edPublic := keyText(t, edSigner)
	ecKey, ecPublic := keyText(t, testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))
	orders := []string{"GET /api/v3/account", "GET /api/v3/myTrades?symbol=BTCUSDT&limit=5", "POST /api/v3/order?symbol=BTCUSDT&side=BUY&quantity=0.01", "GET /api/v3/x?name=a%20b%26c"}
	pays := []string{"POST /v3/alipay/trade/query {\"out_trade_no\":\"1\"}", "POST /v3/alipay/trade/pay {\"subject\":\"Süßes\"}", "GET /v3/alipay/data?start=1&end=2"}
	issues := []string{"GET /rest/api/3/issue/KW-1", "GET /rest/api/3/search?jql=a%20%3D%20b&fields=x,y&fields=a", "POST /rest/api/3/issue?b=2&a=1&a=0 {}", "GET /rest/api/3/a%20b/c?q=%2A~%7E"}
	vaults := []string{"POST /v1/transactions {\"amount\":\"1\",\"note\":\"é\"}", "PUT /v1/vaults/1?x=a%20b {\"name\":\"a\"}"}
	wallets := []string{"GET /platform/v2/evm/accounts", "POST /platform/v2/evm/accounts {\"name\":\"a\"}"}
	atms := []string{"POST /locations/atms/searches?limit=5&distance_unit=MILE {\"latitude\":\"40.7\",\"place\":\"é\"}", "GET /bin-resources/bin-ranges?page=1&sort=-a%20b", "DELETE /x/1"}
	servers := []string{"POST /?RegionId=cn-shanghai&ImageId=a%20b%2Ac", "GET /clusters/c1/triggers?b=2&a=1", "PUT /clusters/c1?x=~y {\"name\":\"é\"}"}
	balances := []string{"GET /api/v1/accounts?currency=BTC", "POST /api/v1/orders {\"side\":\"buy\",\"remark\":\"é\"}"}
	cdp := []string{`api.coinbase.com`, `api.cdp.coinbase.com`, `{uri: "{method} {authority}{path}"}`, `{uris: ["{method} {authority}{path}"]}`}
	exchangeKey := base64.StdEncoding.EncodeToString([]byte("the private key of an account at an exchange"))
	master := base64.StdEncoding.EncodeToString([]byte("eBay's key for keys of developers"[:32]))
	finances := product{"ebay-finances", nil, host.MapSecrets{"ebay-finances-jwe": ebayJWE(t, master, edPublic), "ebay-finances-client": "PRD-1", "ebay-finances-refresh-token": "v^1.1", "ebay-finances-key": inner(edKey)}, nil}
	var requests []signed
	for _, test := range []struct {
		judge, key, public, algorithm, base string
		product                             product
		requests                            []string
	}{
		{"binance", edKey, "", "Ed25519", "", product{"binance", nil, host.MapSecrets{"binance-key": "k1", "binance-private-key": edKey}, nil}, orders},
		{"binance", rsaKey, "", "RSA", "", product{"binance", nil, host.MapSecrets{"binance-key": "k1", "binance-private-key": rsaKey}, []string{"algorithm: EdDSA", "algorithm: RS256"}}, orders},
		{"alipay", inner(rsaKey), "", "", "", product{"alipay", map[string]string{"your-app-id": "2014111111111122"}, host.MapSecrets{"alipay": inner(rsaKey)}, nil}, pays},
		{"atlassian", "shared-secret", "", "", "", product{"jira-connect", map[string]string{"your-site": "acme", "your-app-key": "com.acme.x"}, host.MapSecrets{"jira-connect": "shared-secret"}, nil}, issues},
		{"atlassian", "shared-secret", "", "", "https://acme.atlassian.net/wiki", product{"confluence-connect", map[string]string{"your-site": "acme", "your-app-key": "com.acme.x"}, host.MapSecrets{"confluence-connect": "shared-secret"}, nil}, issues},
		{"fireblocks", rsaKey, "", "", "", product{"fireblocks", nil, host.MapSecrets{"fireblocks-id": "user-1", "fireblocks-key": rsaKey}, nil}, vaults},
		{"coinbase", ecKey, ecPublic, "", "", product{"coinbase", map[string]string{"your-key-name": "organizations/1/apiKeys/2"}, host.MapSecrets{"coinbase": ecKey}, cdp}, wallets},
		{"coinbase", base64.StdEncoding.EncodeToString(edSigner), edPublic, "", "", product{"coinbase", map[string]string{"your-key-name": "key-1"}, host.MapSecrets{"coinbase": base64.StdEncoding.EncodeToString(edSigner)}, append([]string{"algorithm: ES256", "algorithm: EdDSA"}, cdp...)}, wallets},
		{"ebay", edKey, master, "", "", finances, []string{"GET /seller_funds_summary", "GET /payout?limit=20&filter=payoutStatus:%7BSUCCEEDED%7D"}},
		{"ebay", edKey, master, "", "", product{finances.name, finances.set, finances.secrets, []string{`components: "`, `components: "content-digest `}}, []string{"POST /order/1/issue_refund {\"comment\":\"é\"}"}},
		{"mastercard", rsaKey, "", "", "", product{"mastercard", nil, host.MapSecrets{"mastercard-consumer-key": "consumer!1", "mastercard-key": rsaKey}, nil}, atms},
		{"alibaba", "a-secret", "", "", "", product{"alibaba-cloud", map[string]string{"your-region": "cn-shanghai", "your-access-key-id": "LTAI5t"}, host.MapSecrets{"alibaba-cloud": "a-secret"}, nil}, servers},
		{"kucoin", "a-secret", "", "", "", product{"kucoin", map[string]string{"your-key-version": "2"}, host.MapSecrets{"kucoin-key": "k1", "kucoin-secret": "a-secret", "kucoin-passphrase": "horse"}, nil}, balances},
		{"kraken", exchangeKey, "", "", "", product{"kraken", nil, host.MapSecrets{"kraken-key": "k1", "kraken-secret": exchangeKey}, nil}, []string{"POST /0/private/Balance", "POST /0/private/OpenOrders"}},
		{"ibm", "an-api-key+1", "", "", "", product{"ibm-cloud", nil, host.MapSecrets{"ibm-cloud": "an-api-key+1"}, nil}, []string{"GET /v2/resource_instances"}},
	} {
		for _, r := range test.product.send(t, test.requests...) {
			r.Judge, r.Key, r.Public, r.Algorithm, r.Base = test.judge, test.key, test.public, test.algorithm, test.base
			requests = append(requests, r)
		}
	}
	judged(t, requests)
}

// ebayJWE returns a public key as eBay's Key Management API has it: encrypted for eBay, by a key of its own.
func ebayJWE(t *testing.T, master, public string) string {
	t.Helper()
	gcm := testworld.Must(cipher.NewGCM(testworld.Must(aes.NewCipher(testworld.Must(base64.StdEncoding.DecodeString(master))(t)))(t)))(t)
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"dir","enc":"A256GCM"}`))
	claims := testworld.Must(json.Marshal(map[string]any{"appid": "app-1", "pkey": inner(public)}))(t)
	nonce := make([]byte, gcm.NonceSize())
	sealed := gcm.Seal(nil, nonce, claims, []byte(header))
	text, tag := sealed[:len(claims)], sealed[len(claims):]
	parts := []string{header, ""}
	for _, part := range [][]byte{nonce, text, tag} {
		parts = append(parts, base64.RawURLEncoding.EncodeToString(part))
	}
	return strings.Join(parts, ".")
}

// inner returns what stands between the first and the last line of a PEM block.
func inner(text string) string {
	block, _ := pem.Decode([]byte(text))
	return base64.StdEncoding.EncodeToString(block.Bytes)
}

// Oracle's client for Go signs the same requests alike.
func TestOracleSigner(t *testing.T) {
	key, _ := keyText(t, newKey(t))
	set := map[string]string{"your-region": "eu-frankfurt-1", "your-tenancy-ocid": "ocid1.tenancy.oc1..a", "your-user-ocid": "ocid1.user.oc1..b", "your-fingerprint": "20:3b:97"}
	provider := common.NewRawConfigurationProvider(set["your-tenancy-ocid"], set["your-user-ocid"], "eu-frankfurt-1", set["your-fingerprint"], key, nil)
	p := product{"oracle-cloud", set, host.MapSecrets{"oracle-cloud": key}, nil}
	withBody := product{"oracle-cloud", set, p.secrets, []string{
		`date: {header:date}\nhost: {authority}`, `date: {header:date}\nhost: {authority}\ncontent-length: {content_length}\ncontent-type: {header:content-type}\nx-content-sha256: {body|sha256|base64}`,
		`headers="(request-target) date host"`, `headers="(request-target) date host content-length content-type x-content-sha256"`,
		"Date: ", `X-Content-Sha256: "{body|sha256|base64}", Date: `,
	}}
	requests := p.send(t, "GET /20160918/users", "GET /20160918/users?limit=2&name=a%20b")
	requests = append(requests, withBody.send(t, `POST /20160918/users {"name":"é"}`, `PUT /20160918/users/1?x=1 {}`)...)
	for _, r := range requests {
		theirs := copyOf(t, r, "https://"+r.Header.Get("Host"))
		theirs.Header.Del("Authorization")
		signer := common.RequestSigner(provider, []string{"(request-target)", "date", "host"}, []string{"content-length", "content-type", "x-content-sha256"})
		testworld.Check(t, signer.Sign(theirs))
		if diff := cmp.Diff(parameters(theirs.Header), parameters(r.Header)); diff != "" {
			t.Errorf("%s %s: (-Oracle's client +Keywright)\n%s", r.Method, r.Target, diff)
		}
	}
}

// parameters returns the parameters of Authorization, in alphabetical order.
func parameters(header http.Header) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimPrefix(header.Get("Authorization"), "Signature "), ","))
}

// copyOf returns a request as it was sent, to be signed again.
func copyOf(t *testing.T, r signed, origin string) *http.Request {
	t.Helper()
	copied := testworld.Must(http.NewRequestWithContext(t.Context(), r.Method, origin+r.Target, strings.NewReader(r.Body)))(t)
	copied.Header = r.Header.Clone()
	copied.Header.Set("Content-Length", fmt.Sprint(len(r.Body)))
	return copied
}

// replaced is a policy of Azure's client that puts a request in place of its own, before it is signed.
type replaced struct{ request *http.Request }

// Do implements policy.Policy.
func (p replaced) Do(r *policy.Request) (*http.Response, error) {
	raw := r.Raw()
	raw.Method, raw.URL, raw.Header, raw.ContentLength = p.request.Method, p.request.URL, p.request.Header, p.request.ContentLength
	return r.Next()
}

// Azure's client for Go signs the same requests alike.
func TestAzureSharedKey(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	p := product{"azure-blob-storage", map[string]string{"your-account": "acmereports"}, host.MapSecrets{"azure-blob-storage": secret}, nil}
	credential := testworld.Must(azblob.NewSharedKeyCredential("acmereports", secret))(t)
	for _, r := range p.send(t,
		"GET /?comp=list", "GET /reports?restype=container&comp=list&prefix=a%20b&include=tags&include=metadata", "PUT /reports/a.json {\"a\":1}", "GET /reports/%C3%A9%20a?versionid=2024-01-01T00%3A00%3A00Z") {
		theirs := copyOf(t, r, "https://"+r.Header.Get("Host"))
		theirs.Header.Del("Authorization")
		k := &keeper{}
		options := &azblob.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: k}, PerCallPolicies: []policy.Policy{replaced{theirs}}}}
		client := testworld.Must(azblob.NewClientWithSharedKeyCredential("https://acmereports.blob.core.windows.net", credential, options))(t)
		_, _ = client.ServiceClient().GetProperties(t.Context(), nil) // the answer is none of theirs
		if diff := cmp.Diff(k.request.Header.Get("Authorization"), r.Header.Get("Authorization")); diff != "" {
			t.Errorf("%s %s: (-Azure's client +Keywright)\n%s", r.Method, r.Target, diff)
		}
	}
}
