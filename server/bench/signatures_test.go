package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
)

const (
	awsKeyID   = "AKIAEXAMPLE"
	awsRegion  = "eu-central-1"
	awsService = "execute-api"
	keyID      = "bench"
)

// signatureRows returns the rows for signing a request. As in the rows of jwt, our side is a whole call, and the peer's is the
// signing alone.
func signatureRows() []row {
	return []row{
		{
			work: "aws_sigv4, a whole call", against: "aws-sdk-go-v2 v1.47.7 in plain Go: v4.Signer, the same request each time",
			unit: nanoseconds, goal: 2, measure: sigV4,
		},
		{
			work: "http_signature, a whole call, Ed25519, key parsed already", against: "crypto/ed25519 in plain Go: the same signature base, written with +",
			unit: nanoseconds, goal: 2, measure: httpSignature,
		},
		{
			work: "dpop, a whole call with a cached token, ES256, key parsed already", against: "golang-jwt v5.3.1 in plain Go: the same proof, claims in a struct",
			unit: nanoseconds, measure: dpop,
		},
		{
			work: "aws_assume_role, a whole call with cached credentials", against: "aws-sdk-go-v2 v1.47.7 in plain Go: v4.Signer with these credentials, the same request each time",
			unit: nanoseconds, measure: assumedRole,
		},
	}
}

// sigV4 compares with the signer of AWS's SDK.
func sigV4(ctx context.Context, s session) (result, error) {
	return besideSigner(ctx, s, aws.Credentials{AccessKeyID: awsKeyID, SecretAccessKey: apiKey}, host.Auth{Type: "aws_sigv4", Config: map[string]any{
		"access_key_id": awsKeyID, "secret_access_key": "{{ get_secret('key') }}", "region": awsRegion, "service": awsService,
	}})
}

// assumedRole is sigV4 with the credentials of a role.
func assumedRole(ctx context.Context, s session) (result, error) {
	return besideSigner(ctx, s, aws.Credentials{AccessKeyID: "ASIAEXAMPLE", SecretAccessKey: accessToken, SessionToken: accessToken}, authOfRole)
}

// besideSigner compares with the signer of AWS's SDK, which keeps the signing key of the day.
func besideSigner(ctx context.Context, s session, credentials aws.Credentials, a host.Auth) (result, error) {
	h, c, err := connected(ctx, &base{answer: fmt.Sprintf(answer, "Bearer")}, a)
	if err != nil {
		return result{}, err
	}
	defer h.Close(ctx)
	empty := sha256.Sum256(nil)
	payload, signer := hex.EncodeToString(empty[:]), v4.NewSigner()
	theirs := request(ctx)
	native := func(at time.Time) error {
		return signer.SignHTTP(ctx, credentials, theirs, payload, awsService, awsRegion, at)
	}
	r := request(ctx)
	signed, err := c.Authenticate(r)
	if err != nil {
		return result{}, err
	}
	at, err := time.Parse("20060102T150405Z", signed.Header.Get("X-Amz-Date"))
	if err != nil {
		return result{}, err
	}
	if err := native(at); err != nil {
		return result{}, err
	}
	if a, b := signed.Header.Get("Authorization"), theirs.Header.Get("Authorization"); a != b {
		return result{}, fmt.Errorf("the signatures are %s and %s", a, b)
	}
	return s.pair(ctx, whole(c, r), op{run: func() error { return native(time.Now()) }})
}

// httpSignature compares with the least that makes the same signature.
func httpSignature(ctx context.Context, s session) (result, error) {
	h, c, err := connected(ctx, &base{}, host.Auth{Type: "http_signature", Config: map[string]any{
		"private_key": "{{ get_secret('EdDSA') }}", "algorithm": "ed25519", "components": "@method @target-uri", "keyid": keyID,
	}})
	if err != nil {
		return result{}, err
	}
	defer h.Close(ctx)
	key, theirs := keys().ed25519, request(ctx)
	native := func(at int64) {
		input := `("@method" "@target-uri");created=` + strconv.FormatInt(at, 10) + `;keyid="` + keyID + `"`
		base := `"@method": ` + theirs.Method + "\n" + `"@target-uri": ` + theirs.URL.String() + "\n" + `"@signature-params": ` + input
		theirs.Header.Set("Signature-Input", "sig1="+input)
		theirs.Header.Set("Signature", "sig1=:"+base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(base)))+":")
	}
	r := request(ctx)
	signed, err := c.Authenticate(r)
	if err != nil {
		return result{}, err
	}
	_, created, _ := strings.Cut(signed.Header.Get("Signature-Input"), ";created=")
	created, _, _ = strings.Cut(created, ";")
	at, err := strconv.ParseInt(created, 10, 64)
	if err != nil {
		return result{}, err
	}
	native(at)
	for _, name := range []string{"Signature-Input", "Signature"} { // signatures of Ed25519 are the same each time
		if a, b := signed.Header.Get(name), theirs.Header.Get(name); a != b {
			return result{}, fmt.Errorf("%s is %s and %s", name, a, b)
		}
	}
	return s.pair(ctx, whole(c, r), op{run: func() error {
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
func dpop(ctx context.Context, s session) (result, error) {
	h, c, err := connected(ctx, &base{answer: fmt.Sprintf(answer, "DPoP")}, withClient("dpop", map[string]any{"proof_key": "{{ get_secret('ES256') }}"}))
	if err != nil {
		return result{}, err
	}
	defer h.Close(ctx)
	key, r := keys().ecdsa, request(ctx)
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return result{}, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	jwk := map[string]string{"crv": "P-256", "kty": "EC", "x": encode(point[1:33]), "y": encode(point[33:])}
	theirs := request(ctx)
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
	signed, err := c.Authenticate(r)
	if err != nil {
		return result{}, err
	}
	if err := native(); err != nil {
		return result{}, err
	}
	if err := sameProof(signed, theirs, &key.PublicKey); err != nil {
		return result{}, err
	}
	return s.pair(ctx, whole(c, r), op{run: native})
}

// sameProof checks that two requests have valid proofs with the same header and claims, but for the identifier and the time.
func sameProof(one, other *http.Request, public *ecdsa.PublicKey) error {
	var all []string
	for _, r := range []*http.Request{one, other} {
		token, err := jwt.Parse(r.Header.Get("DPoP"), func(*jwt.Token) (any, error) { return public, nil }, jwt.WithValidMethods([]string{"ES256"}))
		if err != nil {
			return fmt.Errorf("a proof is not valid: %w", err)
		}
		claims := token.Claims.(jwt.MapClaims)
		delete(claims, "jti")
		delete(claims, "iat")
		all = append(all, fmt.Sprint(r.Header.Get("Authorization"), token.Header, claims))
	}
	if all[0] != all[1] {
		return fmt.Errorf("the proofs are %s and %s", all[0], all[1])
	}
	return nil
}

// whole returns a whole call of a plugin.
func whole(c *host.Connector, r *http.Request) op {
	return op{run: func() error {
		_, err := c.Authenticate(r)
		return err
	}}
}
