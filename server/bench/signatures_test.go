package bench

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

const (
	awsKeyID   = "AKIAEXAMPLE"
	awsRegion  = "eu-central-1"
	awsService = "execute-api"
	keyID      = "bench"

	// The claims of both sides, except iat and exp.
	issuer   = "client"
	subject  = "user@example.com"
	audience = "https://api.example.com/"
	lifetime = 180 // seconds

	golangJWT = "golang-jwt v5.3.1 in plain Go"
	awsSigner = "v4.Signer of aws-sdk-go-v2 v1.47.7"
)

// claims holds the claims that the peer signs. Of golang-jwt's two ways, a struct is the faster one, by a quarter for HS256.
type claims struct {
	// Claims is nil, because golang-jwt calls its methods only for verification.
	jwt.Claims `json:"-"`

	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// jwtRows returns the rows for signing the JWT of a request. Our side is a whole call of the jwt plugin, which includes
// checking and cloning the request. The peer's is the signing alone, with a key that is parsed already.
func jwtRows() (all []row) {
	for _, a := range []struct {
		algorithm string
		goal      float64
	}{{"RS256", 1.05}, {"ES256", 1.4}, {"EdDSA", 1.5}, {"HS256", 5}} {
		all = append(all, row{
			work: "jwt, a whole call, " + a.algorithm, against: golangJWT, unit: nanoseconds, goal: a.goal,
			measure: func(s session) result { return signing(s, a.algorithm) },
		})
	}
	return all
}

func signing(s session, algorithm string) result {
	c, r, k := connected(s, &base{}, jwtAuth(algorithm)), request(s.Context()), keys()
	private := map[string]any{"RS256": k.rsa, "ES256": k.ecdsa, "EdDSA": k.ed25519, "HS256": []byte(hmacKey)}[algorithm]
	method := jwt.GetSigningMethod(algorithm)
	native := func() (string, error) {
		now := time.Now().Unix()
		return jwt.NewWithClaims(method, claims{nil, issuer, subject, audience, now, now + lifetime}).SignedString(private)
	}
	theirs := testworld.Must(native())(s)
	ours := strings.TrimPrefix(authenticate(s, c, r).Header.Get("Authorization"), "Bearer ")
	var all []string
	for _, text := range []string{ours, theirs} {
		_, claims := verified(s, text, algorithm, private)
		if at, ok := claims["iat"].(float64); !ok || claims["exp"] != at+lifetime {
			s.Fatalf("iat is %v, exp is %v", claims["iat"], claims["exp"])
		}
		delete(claims, "iat")
		delete(claims, "exp")
		all = append(all, fmt.Sprint(claims))
	}
	same(s, "the claims", all[0], all[1])
	return s.pair(whole(c, r), op{run: func() error { _, err := native(); return err }})
}

// verified returns the header and the claims of a valid JWT.
func verified(t testing.TB, text, algorithm string, private any) (map[string]any, jwt.MapClaims) {
	t.Helper()
	public := private
	if signer, ok := private.(crypto.Signer); ok {
		public = signer.Public()
	}
	token := testworld.Must(jwt.Parse(text, func(*jwt.Token) (any, error) { return public, nil }, jwt.WithValidMethods([]string{algorithm})))(t)
	return token.Header, token.Claims.(jwt.MapClaims)
}

// same fails the test unless both sides have made the same.
func same(t testing.TB, what, ours, theirs string) {
	t.Helper()
	if ours != theirs || ours == "" {
		t.Fatalf("%s: %s, want %s", what, ours, theirs)
	}
}

// signatureRows returns the rows for signing a request: our whole call, and the peer's signing alone.
func signatureRows() []row {
	return []row{
		{work: "aws_sigv4, a whole call", against: awsSigner, unit: nanoseconds, goal: 2.5, measure: sigV4},
		{work: "http_signature, a whole call, Ed25519", against: "crypto/ed25519 in plain Go", unit: nanoseconds, goal: 2, measure: httpSignature},
		{work: "dpop, a whole call with a cached token, ES256", against: golangJWT, unit: nanoseconds, measure: dpop},
		{work: "aws_assume_role, a whole call with cached credentials", against: awsSigner, unit: nanoseconds, measure: assumedRole},
	}
}

// sigV4 compares with the signer of AWS's SDK.
func sigV4(s session) result {
	return besideSigner(s, aws.Credentials{AccessKeyID: awsKeyID, SecretAccessKey: apiKey}, host.Auth{Type: "aws_sigv4", Config: map[string]any{
		"access_key_id": awsKeyID, "secret_access_key": "{{ get_secret('key') }}", "region": awsRegion, "service": awsService,
	}})
}

// assumedRole is sigV4 with the credentials of a role.
func assumedRole(s session) result {
	return besideSigner(s, aws.Credentials{AccessKeyID: "ASIAEXAMPLE", SecretAccessKey: accessToken, SessionToken: accessToken}, authOfRole)
}

// besideSigner compares with the signer of AWS's SDK, which keeps the signing key of the day. It signs the same request each time.
func besideSigner(s session, credentials aws.Credentials, a host.Auth) result {
	c := connected(s, &base{answer: fmt.Sprintf(answer, "Bearer")}, a)
	empty := sha256.Sum256(nil)
	payload, signer := hex.EncodeToString(empty[:]), v4.NewSigner()
	r, theirs := request(s.Context()), request(s.Context())
	native := func(at time.Time) error {
		return signer.SignHTTP(s.Context(), credentials, theirs, payload, awsService, awsRegion, at)
	}
	signed := authenticate(s, c, r)
	at := testworld.Must(time.Parse("20060102T150405Z", signed.Header.Get("X-Amz-Date")))(s)
	testworld.Check(s, native(at))
	same(s, "the signature", signed.Header.Get("Authorization"), theirs.Header.Get("Authorization"))
	return s.pair(whole(c, r), op{run: func() error { return native(time.Now()) }})
}

// httpSignature compares with the least that makes the same signature.
func httpSignature(s session) result {
	c := connected(s, &base{}, host.Auth{Type: "http_signature", Config: map[string]any{
		"private_key": "{{ get_secret('EdDSA') }}", "algorithm": "ed25519", "components": "@method @target-uri", "keyid": keyID,
	}})
	key, r, theirs := keys().ed25519, request(s.Context()), request(s.Context())
	native := func(at int64) {
		input := `("@method" "@target-uri");created=` + strconv.FormatInt(at, 10) + `;keyid="` + keyID + `"`
		base := `"@method": ` + theirs.Method + "\n" + `"@target-uri": ` + theirs.URL.String() + "\n" + `"@signature-params": ` + input
		theirs.Header.Set("Signature-Input", "sig1="+input)
		theirs.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(base)))+":")
	}
	signed := authenticate(s, c, r)
	_, created, _ := strings.Cut(signed.Header.Get("Signature-Input"), ";created=")
	created, _, _ = strings.Cut(created, ";")
	at := testworld.Must(strconv.ParseInt(created, 10, 64))(s)
	native(at)
	for _, name := range []string{"Signature-Input", "Signature"} { // signatures of Ed25519 are the same each time
		same(s, name, signed.Header.Get(name), theirs.Header.Get(name))
	}
	return s.pair(whole(c, r), op{run: func() error {
		native(time.Now().Unix())
		return nil
	}})
}

// proof holds the claims of a proof that the peer signs.
type proof struct {
	jwt.Claims `json:"-"`

	ID       string `json:"jti"`
	Method   string `json:"htm"`
	URL      string `json:"htu"`
	IssuedAt int64  `json:"iat"`
	Token    string `json:"ath"`
}

// dpop compares with golang-jwt. Its side makes the public key's JSON once.
func dpop(s session) result {
	c := connected(s, &base{answer: fmt.Sprintf(answer, "DPoP")}, withClient("dpop", map[string]any{"proof_key": "{{ get_secret('ES256') }}"}))
	key, r, theirs := keys().ecdsa, request(s.Context()), request(s.Context())
	point := testworld.Must(key.PublicKey.Bytes())(s)
	encode := base64.RawURLEncoding.EncodeToString
	jwk := map[string]string{"crv": "P-256", "kty": "EC", "x": encode(point[1:33]), "y": encode(point[33:])}
	target, _, _ := strings.Cut(apiURL, "?") // RFC 9449 section 4.2: without the query
	native := func() error {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // never fails
		hash := sha256.Sum256([]byte(accessToken))
		token := jwt.NewWithClaims(jwt.SigningMethodES256, proof{nil, hex.EncodeToString(id), r.Method, target, time.Now().Unix(), encode(hash[:])})
		token.Header["typ"], token.Header["jwk"] = "dpop+jwt", jwk
		text, err := token.SignedString(key)
		theirs.Header.Set("Authorization", "DPoP "+accessToken)
		theirs.Header.Set("DPoP", text)
		return err
	}
	testworld.Check(s, native())
	var all []string
	for _, signed := range []*http.Request{authenticate(s, c, r), theirs} {
		header, claims := verified(s, signed.Header.Get("DPoP"), "ES256", key)
		delete(claims, "jti")
		delete(claims, "iat")
		all = append(all, fmt.Sprint(signed.Header.Get("Authorization"), header, claims))
	}
	same(s, "the proof", all[0], all[1])
	return s.pair(whole(c, r), op{run: native})
}
