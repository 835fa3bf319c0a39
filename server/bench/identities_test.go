package bench

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

var withoutSecrets = flag.Int("requests", 0, "requests of a gateway without secrets, whose identity rotates every 10 s; 0 is 2,000, and an identity that rotates every 100 ms")

// A cluster issues the identity of a workload, as a file.
type cluster struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	file string
	skew atomic.Int64 // of the parties' clock, in nanoseconds
}

// What a cluster issues ends after identityLifetime, and what a party issues after credentialLifetime.
const identityLifetime, credentialLifetime = 30 * time.Second, 75 * time.Second

const identityIssuer, workload = "https://cluster.test", "system:serviceaccount:shop:orders"

func (c *cluster) now() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) }

// rotate writes a new token for the audience of all parties.
func (c *cluster) rotate() error {
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": identityIssuer, "sub": workload, "aud": "parties", "iat": time.Now().Unix(), "exp": time.Now().Add(identityLifetime).Unix(), "jti": rand.Text(),
	})
	text, err := token.SignedString(c.key)
	return errors.Join(err, os.WriteFile(c.file+".new", []byte(text), 0o600), os.Rename(c.file+".new", c.file))
}

// knows reports whether a text is a token of the cluster that has not ended.
func (c *cluster) knows(text string) bool {
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(text, claims, func(*jwt.Token) (any, error) { return &c.key.PublicKey, nil },
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience("parties"), jwt.WithIssuer(identityIssuer), jwt.WithSubject(workload), jwt.WithTimeFunc(c.now), jwt.WithExpirationRequired())
	return err == nil
}

// A relyingParty issues short-lived credentials for identities of a cluster, and has an API that takes them.
type relyingParty struct {
	*cluster
	server *httptest.Server
	// member is the parameter with the identity, and wants has parameters that the party demands beside it.
	member string
	wants  map[string]string
	// answer returns the answer with a credential that ends after some seconds.
	answer    func(credential string, seconds int) string
	mu        sync.Mutex
	issued    map[string]time.Time
	exchanges int
}

// ServeHTTP implements http.Handler.
func (p *relyingParty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/token" {
		if !p.accepts(r) {
			http.Error(w, "no valid credential", http.StatusUnauthorized)
		}
		return
	}
	for name, value := range p.wants {
		if r.PostFormValue(name) != value {
			http.Error(w, fmt.Sprintf(`{"error":"invalid_request","error_description":"%s"}`, name), http.StatusBadRequest)
			return
		}
	}
	if !p.knows(r.PostFormValue(p.member)) {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	credential := "credential-" + rand.Text()
	p.mu.Lock()
	p.issued[credential], p.exchanges = p.now().Add(credentialLifetime), p.exchanges+1
	p.mu.Unlock()
	text := p.answer(credential, int(credentialLifetime.Seconds()))
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(text, "<") {
		w.Header().Set("Content-Type", "text/xml")
	}
	_, _ = io.WriteString(w, text)
}

// accepts reports whether a request has a credential of the party.
func (p *relyingParty) accepts(r *http.Request) bool {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if session := r.Header.Get("X-Amz-Security-Token"); session != "" {
		token, found = session, p.signs(r, session)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ends, issued := p.issued[token]
	return found && issued && p.now().Before(ends)
}

// secretKey returns the secret access key of a session.
func secretKey(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:20])
}

// signs reports whether AWS's signer makes the signature of a request with the key of a session.
func (p *relyingParty) signs(r *http.Request, session string) bool {
	date, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return false
	}
	theirs := r.Clone(r.Context())
	theirs.URL.Scheme, theirs.URL.Host = "http", r.Host
	theirs.Header = http.Header{"X-Amz-Content-Sha256": r.Header["X-Amz-Content-Sha256"]}
	credentials := aws.Credentials{AccessKeyID: "ASIAEXAMPLE", SecretAccessKey: secretKey(session), SessionToken: session}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	err = v4.NewSigner().SignHTTP(r.Context(), credentials, theirs, empty, "s3", "eu-central-1", date)
	return err == nil && theirs.Header.Get("Authorization") == r.Header.Get("Authorization")
}

// parties returns four relying parties of a cluster, by the names of connectors, and the configuration of each.
func parties(t *testing.T, c *cluster) (all map[string]*relyingParty, file string) {
	t.Helper()
	oauth := func(credential string, seconds int) string {
		return fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":%d}`, credential, seconds)
	}
	session := func(credential string, seconds int) string {
		ends := time.Now().Add(time.Duration(seconds) * time.Second).UTC().Format(time.RFC3339)
		return `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>` +
			secretKey(credential) + "</SecretAccessKey><SessionToken>" + credential + "</SessionToken><Expiration>" + ends + "</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
	}
	const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	all = map[string]*relyingParty{
		"aws":    {member: "WebIdentityToken", wants: map[string]string{"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::123456789012:role/reports"}, answer: session},
		"google": {member: "subject_token", wants: map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "audience": "//iam.googleapis.com/pool", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt"}, answer: oauth},
		"entra":  {member: "client_assertion", wants: map[string]string{"grant_type": "client_credentials", "client_assertion_type": assertionType, "client_id": "orders"}, answer: oauth},
		"bearer": {member: "assertion", wants: map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, answer: oauth},
	}
	configs := map[string]string{
		"aws":    "aws_assume_role\n      config: {web_identity_token: IDENTITY, role_arn: arn:aws:iam::123456789012:role/reports, sts_url: URL/token, region: eu-central-1, service: s3}",
		"google": "token_exchange\n      config: {token_url: URL/token, client_auth: none, subject_token: IDENTITY, subject_token_type: urn:ietf:params:oauth:token-type:jwt, audience: //iam.googleapis.com/pool}",
		"entra":  "oauth_client_credentials\n      config: {token_url: URL/token, client_id: orders, client_auth: assertion, client_assertion: IDENTITY}",
		"bearer": "oauth_jwt_bearer\n      config: {token_url: URL/token, client_auth: none, assertion: IDENTITY}",
	}
	var hosts []string
	connectors := ""
	for name, p := range all {
		p.cluster, p.issued = c, map[string]time.Time{}
		p.server = httptest.NewServer(p)
		t.Cleanup(p.server.Close)
		hosts = append(hosts, fmt.Sprintf("%q", strings.TrimPrefix(p.server.URL, "http://")))
		connectors += "  - name: " + name + "\n    url: URL\n    paths: [/**]\n    auth:\n      type: " + configs[name] + "\n"
		connectors = strings.ReplaceAll(strings.ReplaceAll(connectors, "URL", p.server.URL), "IDENTITY", `"{{ identity('pod', 'parties') }}"`)
	}
	return all, "identities:\n  - {name: pod, type: file, path: " + c.file + ", for: [{audience: parties, hosts: [" + strings.Join(hosts, ", ") + "]}]}\nconnectors:\n" + connectors
}

// A gateway whose file, environment and memory have no secret that lasts serves all requests at four relying parties, while its identity
// rotates. What its memory has is of no use an hour later.
func TestWithoutSecrets(t *testing.T) {
	requests, rotation := *withoutSecrets, 10*time.Second
	if requests == 0 {
		requests, rotation = 2000, 100*time.Millisecond
	}
	dir := t.TempDir()
	c := &cluster{t: t, key: testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), file: filepath.Join(dir, "token")}
	testworld.Check(t, c.rotate())
	ctx, cancel := context.WithCancel(t.Context())
	rotated := make(chan error, 1)
	go func() {
		var err error
		for ticks := time.NewTicker(rotation); ctx.Err() == nil && err == nil; {
			select {
			case <-ticks.C:
				err = c.rotate()
			case <-ctx.Done():
			}
		}
		rotated <- err
	}()
	all, text := parties(t, c)
	file := filepath.Join(dir, "connectors.yaml")
	testworld.Check(t, os.WriteFile(file, []byte(text), 0o600))
	command := keywright(t, "serve", "-c", file, "--dev", "--listen", "127.0.0.1:0", "--admin", freeAddress(t))
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	address, _ := start(t, command)

	failed := callParties(t, address, requests)
	memory := testworld.Must(image(command.Process.Pid))(t)
	cancel()
	testworld.Check(t, <-rotated)
	for status, n := range failed {
		t.Errorf("%d requests: %s", n, status)
	}
	for name, p := range all {
		t.Logf("%s: %d exchanges", name, p.exchanges)
		if p.exchanges == 0 {
			t.Errorf("%s: no exchange", name)
		}
	}
	c.searches(memory, text, all)
}

// callParties sends requests to the connectors in turn, and returns how many failed, by what was wrong.
func callParties(t *testing.T, address string, requests int) map[string]int {
	t.Helper()
	client := &http.Client{Transport: newClient(t)}
	var next atomic.Int64
	var mu sync.Mutex
	failed := map[string]int{}
	var callers sync.WaitGroup
	names := []string{"aws", "google", "entra", "bearer"}
	for range loadClients {
		callers.Go(func() {
			for i := next.Add(1); i <= int64(requests); i = next.Add(1) {
				var body bytes.Buffer
				if err := fetch(t.Context(), client.Transport, address+names[i%4]+"/orders", &body); err != nil {
					mu.Lock()
					failed[names[i%4]+": "+err.Error()+" "+body.String()]++
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	return failed
}

// image returns what a process has in memory that it can write.
func image(process int) ([]byte, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", process))
	if err != nil {
		return nil, err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", process))
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	var all []byte
	for line := range bytes.Lines(maps) {
		var begin, end int64
		var mode string
		if _, err := fmt.Sscanf(string(line), "%x-%x %s", &begin, &end, &mode); err != nil || !strings.HasPrefix(mode, "rw") {
			continue
		}
		part := make([]byte, end-begin)
		if n, err := memory.ReadAt(part, begin); err == nil || n > 0 {
			all = append(all, part[:n]...)
		}
	}
	return all, nil
}

var (
	tokenTexts      = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)
	credentialTexts = regexp.MustCompile(`credential-[A-Z0-9]{26}`)
)

// searches offers what looks like a credential in the memory and the file of a gateway to the parties, now and an hour later.
func (c *cluster) searches(memory []byte, file string, all map[string]*relyingParty) {
	c.t.Helper()
	memory = append(memory, file...)
	scalar := testworld.Must(c.key.Bytes())(c.t)
	for _, secret := range [][]byte{scalar, []byte(base64.StdEncoding.EncodeToString(scalar)), []byte(hex.EncodeToString(scalar))} {
		if bytes.Contains(memory, secret) {
			c.t.Error("the gateway has the key of the cluster")
		}
	}
	accepted := func() (identities, credentials int) {
		for _, text := range tokenTexts.FindAll(memory, -1) {
			if c.knows(string(text)) {
				identities++
			}
		}
		for _, text := range credentialTexts.FindAll(memory, -1) {
			for _, p := range all {
				if p.accepts(&http.Request{Header: http.Header{"Authorization": {"Bearer " + string(text)}}}) {
					credentials++
				}
			}
		}
		return identities, credentials
	}
	if identities, credentials := accepted(); identities == 0 || credentials == 0 {
		c.t.Errorf("%d bytes have %d identities and %d credentials that are valid now: the search finds nothing", len(memory), identities, credentials)
	}
	c.skew.Store(int64(time.Hour))
	if identities, credentials := accepted(); identities+credentials > 0 {
		c.t.Errorf("%d identities and %d credentials in the memory are valid after an hour", identities, credentials)
	}
}
