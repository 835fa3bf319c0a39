package vault

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/hashicorp/go-hclog"
	jwtauth "github.com/hashicorp/vault-plugin-auth-jwt"
	kubernetes "github.com/hashicorp/vault-plugin-auth-kubernetes"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/logical/transit"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/vault"

	"github.com/keywright/keywright/internal/testworld"
)

// A Server is a Vault with a key-value engine, version 2, at kv, and a transit engine at transit. Its policy "gateway" allows
// reading kv/data/apps/*, and using the keys app-* of transit. The role gateway of approle and of kubernetes has this policy,
// with tokens that live for an hour.
type Server struct {
	t    *testing.T
	core *vault.Core
	keys [][]byte
	dir  string

	handler http.Handler

	URL string
	// Root is the root token.
	Root                string
	RoleID, SecretID    string
	ServiceAccountToken string

	mu sync.Mutex
	// requests holds the requests over the network. Requests of Do are not among them.
	requests []string
}

// New starts a server, which is stopped at the end of the test.
func New(t *testing.T) *Server {
	t.Helper()
	core, keys, root := vault.TestCoreUnsealedWithConfig(t, &vault.CoreConfig{
		Logger:             hclog.NewNullLogger(),
		LogicalBackends:    map[string]logical.Factory{"kv": kv.VersionedKVFactory, "transit": transit.Factory},
		CredentialBackends: map[string]logical.Factory{"approle": approle.Factory, "kubernetes": kubernetes.Factory, "jwt": jwtauth.Factory},
	})
	s := &Server{t: t, core: core, keys: keys, dir: t.TempDir(), Root: root}
	s.handler = vaulthttp.Handler.Handler(&vault.HandlerProperties{
		Core: core, ListenerConfig: &configutil.Listener{},
	})
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		s.handler.ServeHTTP(w, r)
	}))
	listener.Config.ErrorLog = log.New(io.Discard, "", 0)
	listener.StartTLS()
	t.Cleanup(listener.Close)
	s.URL = listener.URL
	s.Write("ca.pem", certificate(listener))
	s.configure()
	return s
}

func certificate(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func (s *Server) configure() {
	s.t.Helper()
	s.Do("POST", "sys/mounts/kv", map[string]any{"type": "kv", "options": map[string]string{"version": "2"}})
	s.Do("POST", "sys/mounts/transit", map[string]any{"type": "transit"})
	s.Do("POST", "sys/policies/acl/gateway", map[string]any{"policy": `path "kv/data/apps/*" { capabilities = ["read"] }
path "transit/keys/app-*" { capabilities = ["read"] }
path "transit/sign/app-*" { capabilities = ["update"] }
path "transit/hmac/app-*" { capabilities = ["update"] }
path "none/*" { capabilities = ["read"] }`})
	role := map[string]any{"token_policies": "gateway", "token_ttl": "1h", "token_max_ttl": "24h"}
	s.Do("POST", "sys/auth/approle", map[string]any{"type": "approle"})
	s.Do("POST", "auth/approle/role/gateway", role)
	s.RoleID = text(s.Do("GET", "auth/approle/role/gateway/role-id", nil), "role_id")
	s.SecretID = text(s.Do("POST", "auth/approle/role/gateway/secret-id", nil), "secret_id")
	s.Write("secret_id", s.SecretID)

	account, ca := s.kubernetesAPI()
	s.ServiceAccountToken = account
	s.Write("jwt", account)
	role["bound_service_account_names"], role["bound_service_account_namespaces"] = "gateway", "default"
	s.Do("POST", "sys/auth/kubernetes", map[string]any{"type": "kubernetes"})
	s.Do("POST", "auth/kubernetes/config", map[string]any{"kubernetes_host": ca.URL, "kubernetes_ca_cert": certificate(ca), "disable_local_ca_jwt": true})
	s.Do("POST", "auth/kubernetes/role/gateway", role)
}

// kubernetesAPI starts a server for TokenReview requests, and returns the token of the service account default/gateway.
func (s *Server) kubernetesAPI() (token string, api *httptest.Server) {
	s.t.Helper()
	key := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(s.t)
	token = testworld.Must(jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": "https://kubernetes.default.svc.cluster.local", "sub": "system:serviceaccount:default:gateway",
		"kubernetes.io": map[string]any{"namespace": "default", "serviceaccount": map[string]any{"name": "gateway", "uid": "uid-1"}},
	}).SignedString(key))(s.t)
	api = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Spec struct{ Token string } }
		_ = json.NewDecoder(r.Body).Decode(&review)
		status := map[string]any{"authenticated": false}
		if review.Spec.Token == token {
			status = map[string]any{"authenticated": true, "user": map[string]any{"username": "system:serviceaccount:default:gateway", "uid": "uid-1"}}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status})
	}))
	s.t.Cleanup(api.Close)
	return token, api
}

// Do sends a request with the root token, like an operator. It returns the member auth of the response, or data if there is no
// auth.
func (s *Server) Do(method, path string, body map[string]any) map[string]any {
	s.t.Helper()
	document := testworld.Must(json.Marshal(body))(s.t)
	r := httptest.NewRequestWithContext(s.t.Context(), method, "/v1/"+path, bytes.NewReader(document))
	r.Header.Set("X-Vault-Token", s.Root)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code >= 300 {
		s.t.Fatalf("%s %s: w.Code = %d w.Body = %s", method, path, w.Code, w.Body)
	}
	var answer struct{ Data, Auth map[string]any }
	_ = json.Unmarshal(w.Body.Bytes(), &answer)
	if answer.Auth != nil {
		return answer.Auth
	}
	return answer.Data
}

// Put writes a secret to the engine at kv.
func (s *Server) Put(path string, fields map[string]any) {
	s.t.Helper()
	s.Do("POST", "kv/data/"+path, map[string]any{"data": fields})
}

// Token returns a new token with the policy gateway that lives for an hour.
func (s *Server) Token() string {
	s.t.Helper()
	return text(s.Do("POST", "auth/token/create", map[string]any{"policies": []string{"gateway"}, "ttl": "1h"}), "client_token")
}

// Seal seals the server. [Server.Unseal] unseals it.
func (s *Server) Seal() {
	s.t.Helper()
	testworld.Check(s.t, vault.TestCoreSeal(s.core))
}

// Unseal unseals the server after [Server.Seal].
func (s *Server) Unseal() {
	s.t.Helper()
	for _, key := range s.keys {
		testworld.Must(vault.TestCoreUnseal(s.core, vault.TestKeyCopy(key)))(s.t)
	}
	vault.TestWaitActive(s.t, s.core)
}

// File returns the path of a file, such as ca.pem, secret_id or jwt.
func (s *Server) File(name string) string { return filepath.Join(s.dir, name) }

// Write writes the file at [Server.File].
func (s *Server) Write(name, content string) {
	s.t.Helper()
	testworld.Check(s.t, os.WriteFile(s.File(name), []byte(content), 0o600))
}

// Asked returns the number of times that a request was received, such as "POST /v1/auth/approle/login".
func (s *Server) Asked(request string) (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count("\n"+strings.Join(s.requests, "\n\n")+"\n", "\n"+request+"\n")
}

func text(answer map[string]any, member string) string { return fmt.Sprint(answer[member]) }
