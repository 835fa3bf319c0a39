package secretstore_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"strings"
)

// says returns a hostile answer that is always the same.
func says(status int, body string) hostile {
	return func(_ *engine, w http.ResponseWriter, _ asking) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// echoes returns a hostile answer with the request in it, in place of %s.
func echoes(status int, format string) hostile {
	return func(_ *engine, w http.ResponseWriter, r asking) {
		w.WriteHeader(status)
		quoted, _ := json.Marshal(r.all)
		_, _ = io.WriteString(w, strings.ReplaceAll(format, "%s", string(quoted)))
	}
}

// leads returns a redirect to a path of the engine, or to another host, with the token in it.
func leads(status int, to string) hostile {
	return func(_ *engine, w http.ResponseWriter, r asking) {
		w.Header().Set("Location", to+"?token="+r.Header.Get("X-Vault-Token"))
		w.WriteHeader(status)
	}
}

// signs returns an answer with the signature that f returns, and the version that was asked for.
func signs(f func(e *engine, r asking) []byte) hostile {
	return func(e *engine, w http.ResponseWriter, r asking) {
		_, _ = io.WriteString(w, dataOf(written(r.key, max(r.toSign.Version, 1), f(e, r))))
	}
}

// describes returns an answer that is the description of the key after f has changed it.
func describes(f func(about map[string]any, r asking)) hostile {
	return func(e *engine, w http.ResponseWriter, r asking) {
		about := e.about(r.key)
		f(about, r)
		_, _ = io.WriteString(w, dataOf(about))
	}
}

// public returns a description whose public halves are all this text.
func public(text string) hostile {
	return describes(func(about map[string]any, _ asking) {
		for _, version := range about["keys"].(map[string]any) {
			version.(map[string]any)["public_key"] = text
		}
	})
}

const (
	notItsAPI   = "the answer is not as its API has it"
	noSignature = "there is no signature in the answer"
	notAsAsked  = "the signature in the answer is not in the form that was asked for"
	notVerified = "the signature of the store of keys does not verify"
	notFollowed = "a redirect, which is not followed"
	noEngineKey = "there is no key of a transit engine"
)

// hostileToBoth has answers to any request, be it to describe a key or to sign.
var hostileToBoth = map[string]struct {
	answer hostile
	want   string
}{
	"nothing":                    {says(200, ""), notItsAPI},
	"HTML":                       {says(200, "<html>"), notItsAPI},
	"half a document":            {says(200, `{"data":{"signature":"vault:v1:AAAA"`), notItsAPI},
	"a name twice":               {says(200, `{"data":{},"data":{}}`), notItsAPI},
	"a list":                     {says(200, `[]`), notItsAPI},
	"data that is a list":        {says(200, `{"data":[]}`), notItsAPI},
	"nested without end":         {says(200, `{"data":`+strings.Repeat("[", 1<<20)), notItsAPI},
	"not UTF-8":                  {says(200, "{\"data\":{\"signature\":\"\xff\",\"type\":\"\xff\"}}"), notItsAPI},
	"2 MiB and more":             {says(200, `{"data":{"signature":"vault:v1:`+strings.Repeat("A", 2<<20)+`"}}`), "more than 2097152 bytes"},
	"an echo":                    {echoes(200, `%s`), notItsAPI},
	"an echo after the document": {echoes(200, `{} %s`), notItsAPI},
	"an echo with 403":           {echoes(403, `{"errors":[%s]}`), "the policy must allow"},
	"an echo with 404":           {echoes(404, `{"errors":[%s]}`), "vault has no engine at"},
	"an echo with 429":           {echoes(429, `{"errors":[%s]}`), "it answered 429"},
	"an echo with 503":           {echoes(503, `{"errors":[%s]}`), "it answered 503: it is sealed"},
	"a status without meaning":   {echoes(299, `{"errors":[%s]}`), "it answered 299"},
	"a redirect to itself":       {leads(307, "/v1/transit/sign/ES256"), notFollowed},
	"a redirect elsewhere":       {leads(308, "https://api.test/orders"), notFollowed},
	"a redirect to see":          {leads(303, "https://api.test/orders"), notFollowed},
	"a redirect without target":  {says(302, ""), notFollowed},
	"headers without end": {func(_ *engine, w http.ResponseWriter, _ asking) {
		hijack(w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
	}, "vault cannot be reached"},
	"half a body": {func(_ *engine, w http.ResponseWriter, _ asking) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\"")
	}, "the connection was closed"},
	"an echo that is no HTTP": {func(_ *engine, w http.ResponseWriter, r asking) { hijack(w, r.all+"\r\n\r\n") }, "does not speak HTTP as it should"},
}

// hostileToSign has answers to a request to sign or to make an HMAC.
var hostileToSign = map[string]struct {
	answer hostile
	want   string
}{
	"200 with errors":             {echoes(200, `{"errors":[%s],"data":null}`), noSignature},
	"200 with warnings":           {echoes(200, `{"warnings":[%s],"data":{}}`), noSignature},
	"an echo with 400":            {echoes(400, `{"errors":[%s]}`), "vault cannot use it at"},
	"an echo with 500":            {echoes(500, `{"errors":[%s]}`), "it answered 500"},
	"an echo as signature":        {echoes(200, `{"data":{"signature":%s,"hmac":%s}}`), noSignature},
	"an echo as version":          {echoes(200, `{"data":{"signature":"vault:v1:AAAA","key_version":%s}}`), "returned 3 bytes"},
	"a number as signature":       {says(200, `{"data":{"signature":7,"hmac":7}}`), notItsAPI},
	"no data":                     {says(200, `{}`), noSignature},
	"data that is null":           {says(200, `{"data":null}`), noSignature},
	"an object as signature":      {says(200, `{"data":{"signature":{"a":1},"hmac":{"a":1}}}`), notItsAPI},
	"a signature twice":           {says(200, `{"data":{"signature":"vault:v1:AAAA","signature":"vault:v1:BBBB"}}`), notItsAPI},
	"no prefix":                   {says(200, `{"data":{"signature":"AAAA","hmac":"AAAA"}}`), noSignature},
	"no signature":                {says(200, `{"data":{"signature":"vault:v1","hmac":"vault:v1"}}`), noSignature},
	"no version":                  {says(200, `{"data":{"signature":"vault:v:AAAA"}}`), noSignature},
	"version 0":                   {says(200, `{"data":{"signature":"vault:v0:AAAA"}}`), noSignature},
	"a version below 0":           {says(200, `{"data":{"signature":"vault:v-1:AAAA"}}`), noSignature},
	"a version beyond integers":   {says(200, `{"data":{"signature":"vault:v99999999999999999999:AAAA"}}`), noSignature},
	"no Base64":                   {says(200, `{"data":{"signature":"vault:v1:A*AA"}}`), notAsAsked},
	"no bytes":                    {says(200, `{"data":{"signature":"vault:v1:"}}`), "returned 0 bytes"},
	"one byte less":               {signs(func(e *engine, r asking) []byte { return e.signature(r.key, r.toSign)[1:] }), "bytes, and a signature with"},
	"one byte more":               {signs(func(e *engine, r asking) []byte { return append(e.signature(r.key, r.toSign), 0) }), "bytes, and a signature with"},
	"a megabyte":                  {signs(func(*engine, asking) []byte { return make([]byte, 1<<20) }), "returned 1048576 bytes"},
	"what is signed":              {signs(func(_ *engine, r asking) []byte { return []byte(base64.StdEncoding.EncodeToString(r.toSign.Input)) }), "bytes, and a signature with"},
	"the first bytes of the data": {signs(func(e *engine, r asking) []byte { return r.bytes(e, 0) }), "the store of keys"},
	"further bytes of the data":   {signs(func(e *engine, r asking) []byte { return r.bytes(e, 1) }), "the store of keys"},
}

// bytes returns bytes of what is signed that are as long as a signature.
func (r asking) bytes(e *engine, from int) []byte {
	size := len(e.signature(r.key, r.toSign))
	return append(r.toSign.Input, make([]byte, size+from)...)[from : from+size]
}

// hostileSignatures has answers with a signature that the public half does not verify. There is none for an HMAC.
var hostileSignatures = map[string]struct {
	answer hostile
	want   string
}{
	"only zeros": {signs(func(*engine, asking) []byte { return make([]byte, 64) }), notVerified},
	"only ones":  {signs(func(*engine, asking) []byte { return []byte(strings.Repeat("\xff", 64)) }), notVerified},
	"of other data": {signs(func(e *engine, r asking) []byte {
		return e.signature(r.key, toSign{Input: make([]byte, 32), Version: 1})
	}), notVerified},
	"of another version": {signs(func(e *engine, r asking) []byte { return e.signature(r.key, toSign{Input: r.toSign.Input, Version: 2}) }), notVerified},
	"of another key":     {signs(func(_ *engine, r asking) []byte { return newSignature(r) }), notVerified},
	"of a version that is none": {func(e *engine, w http.ResponseWriter, r asking) {
		_, _ = io.WriteString(w, dataOf(written(r.key, 3, e.signature(r.key, r.toSign))))
	}, "the key is not found: vault has no version 3"},
}

// newSignature returns a signature of a new key.
func newSignature(r asking) []byte {
	seed := make([]byte, ed25519.SeedSize)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	other := &engine{ec: [2]*ecdsa.PrivateKey{key, key}, ed: [2]ed25519.PrivateKey{ed25519.NewKeyFromSeed(seed), ed25519.NewKeyFromSeed(seed)}}
	return other.signature(r.key, r.toSign)
}

// hostileDescriptions has answers to a request to describe a key.
var hostileDescriptions = map[string]struct {
	answer hostile
	want   string
}{
	"200 with errors":  {echoes(200, `{"errors":[%s]}`), noEngineKey},
	"no data":          {says(200, `{"data":null}`), noEngineKey},
	"an echo with 400": {echoes(400, `{"errors":[%s]}`), "it answered 400"},
	"an echo with 500": {echoes(500, `{"errors":[%s]}`), "it answered 500"},
	"an echo as type":  {describes(func(about map[string]any, r asking) { about["type"], about["keys"] = r.all, nil }), "is of the type unknown"},
	"an echo as half": {describes(func(about map[string]any, r asking) {
		about["keys"] = map[string]any{"2": map[string]any{"public_key": r.all}}
	}), "is needed"},
	"an echo as version": {describes(func(about map[string]any, r asking) {
		about["keys"] = map[string]any{r.all: map[string]any{"public_key": "x"}}
	}), "is needed"},
	"an echo for a number":        {describes(func(about map[string]any, r asking) { about["latest_version"] = r.all }), notItsAPI},
	"no type":                     {describes(func(about map[string]any, _ asking) { delete(about, "type") }), noEngineKey},
	"no version":                  {describes(func(about map[string]any, _ asking) { about["latest_version"] = 0 }), noEngineKey},
	"a version below 0":           {describes(func(about map[string]any, _ asking) { about["latest_version"] = -1 }), noEngineKey},
	"a version that is not there": {describes(func(about map[string]any, _ asking) { about["latest_version"] = 1 << 40 }), "the key is not found: vault has no version 1099511627776"},
	"none may sign":               {describes(func(about map[string]any, _ asking) { about["min_encryption_version"] = 3 }), "the key may not be used: version 2"},
	"a derived key":               {describes(func(about map[string]any, _ asking) { about["derived"] = true }), "(derived)"},
	"times for halves":            {describes(func(about map[string]any, _ asking) { about["keys"] = map[string]any{"1": 1700000000, "2": 1700000000} }), "is needed"},
	"no half":                     {public(""), "is needed"},
	"a half of RSA":               {public(pemOf(&rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 2047, 1), E: 65537})), "is needed"},
	"a half of 1 Mbit":            {public(pemOf(&rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 1<<20, 1), E: 65537})), "is needed"},
	"a half of P-224":             {public(pemOf(newHalf(elliptic.P224()))), "is needed"},
	"a half of P-384":             {public(pemOf(newHalf(elliptic.P384()))), "is needed"},
	"a half of P-521":             {public(pemOf(newHalf(elliptic.P521()))), "is needed"},
	"a half of 31 bytes":          {public(base64.StdEncoding.EncodeToString(make([]byte, 31))), "is needed"},
	"the halves of another": {func(_ *engine, w http.ResponseWriter, r asking) {
		seed := make([]byte, ed25519.SeedSize)
		other := &engine{ec: [2]*ecdsa.PrivateKey{newKey(elliptic.P256()), newKey(elliptic.P256())}, ed: [2]ed25519.PrivateKey{ed25519.NewKeyFromSeed(seed), ed25519.NewKeyFromSeed(seed)}}
		_, _ = io.WriteString(w, dataOf(other.about(r.key)))
	}, notVerified},
	"as many versions as fit": {describes(func(about map[string]any, _ asking) {
		versions := about["keys"].(map[string]any)
		for i := range 8000 {
			versions[strconv.Itoa(i+1)] = versions["1"]
		}
	}), notVerified},
}

func newKey(curve elliptic.Curve) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func newHalf(curve elliptic.Curve) crypto.PublicKey { return newKey(curve).Public() }
