package main

import (
	"context"
	"crypto/ed25519"
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
	}
}

// sigV4 compares with the signer of AWS's SDK, which keeps the signing key of the day.
func sigV4(ctx context.Context, s session) (result, error) {
	h, c, err := connected(ctx, &base{}, host.Auth{Type: "aws_sigv4", Config: map[string]any{
		"access_key_id": awsKeyID, "secret_access_key": "{{ get_secret('key') }}", "region": awsRegion, "service": awsService,
	}})
	if err != nil {
		return result{}, err
	}
	defer h.Close(ctx)
	empty := sha256.Sum256(nil)
	payload, credentials, signer := hex.EncodeToString(empty[:]), aws.Credentials{AccessKeyID: awsKeyID, SecretAccessKey: apiKey}, v4.NewSigner()
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

// whole returns a whole call of a plugin.
func whole(c *host.Connector, r *http.Request) op {
	return op{run: func() error {
		_, err := c.Authenticate(r)
		return err
	}}
}
