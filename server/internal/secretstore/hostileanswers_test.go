package secretstore_test

import (
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"strings"
)

// always returns a hostile answer that is a trouble of any request.
func always(answer func(w http.ResponseWriter, echo string)) hostile {
	return func(_ *engine, w http.ResponseWriter, r asking) { answer(w, r.all) }
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
	noSignature = "there is no signature in the answer"
	notAsAsked  = "the signature in the answer is not in the form that was asked for"
	notVerified = "the signature of the store of keys does not verify"
	noEngineKey = "there is no key of a transit engine"
)

// hostileToBoth returns answers to any request, be it to describe a key or to sign.
func hostileToBoth() map[string]hostileAnswer {
	all := map[string]hostileAnswer{
		"data that is a list": {always(says(200, `{"data":[]}`)), notItsAPI},
		"an echo with 403":    {always(says(403, `{"errors":[%s]}`)), "the policy must allow"},
		"an echo with 404":    {always(says(404, `{"errors":[%s]}`)), "vault has no engine at"},
	}
	for name, t := range troubles {
		all[name] = hostileAnswer{always(t.answer), t.want}
	}
	return all
}

// hostileToSign has answers to a request to sign or to make an HMAC.
var hostileToSign = map[string]hostileAnswer{
	"200 with errors":             {always(says(200, `{"errors":[%s],"data":null}`)), noSignature},
	"200 with warnings":           {always(says(200, `{"warnings":[%s],"data":{}}`)), noSignature},
	"an echo with 400":            {always(says(400, `{"errors":[%s]}`)), "vault cannot use it at"},
	"an echo as signature":        {always(says(200, `{"data":{"signature":%s,"hmac":%s}}`)), noSignature},
	"an echo as version":          {always(says(200, `{"data":{"signature":"vault:v1:AAAA","key_version":%s}}`)), "returned 3 bytes"},
	"a number as signature":       {always(says(200, `{"data":{"signature":7,"hmac":7}}`)), notItsAPI},
	"no data":                     {always(says(200, `{}`)), noSignature},
	"data that is null":           {always(says(200, `{"data":null}`)), noSignature},
	"an object as signature":      {always(says(200, `{"data":{"signature":{"a":1},"hmac":{"a":1}}}`)), notItsAPI},
	"a signature twice":           {always(says(200, `{"data":{"signature":"vault:v1:AAAA","signature":"vault:v1:BBBB"}}`)), notItsAPI},
	"no prefix":                   {always(says(200, `{"data":{"signature":"AAAA","hmac":"AAAA"}}`)), noSignature},
	"no signature":                {always(says(200, `{"data":{"signature":"vault:v1","hmac":"vault:v1"}}`)), noSignature},
	"no version":                  {always(says(200, `{"data":{"signature":"vault:v:AAAA"}}`)), noSignature},
	"version 0":                   {always(says(200, `{"data":{"signature":"vault:v0:AAAA"}}`)), noSignature},
	"a version below 0":           {always(says(200, `{"data":{"signature":"vault:v-1:AAAA"}}`)), noSignature},
	"a version beyond integers":   {always(says(200, `{"data":{"signature":"vault:v99999999999999999999:AAAA"}}`)), noSignature},
	"no Base64":                   {always(says(200, `{"data":{"signature":"vault:v1:A*AA"}}`)), notAsAsked},
	"no bytes":                    {always(says(200, `{"data":{"signature":"vault:v1:"}}`)), "returned 0 bytes"},
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
var hostileSignatures = map[string]hostileAnswer{
	"only zeros": {signs(func(*engine, asking) []byte { return make([]byte, 64) }), notVerified},
	"only ones":  {signs(func(*engine, asking) []byte { return []byte(strings.Repeat("\xff", 64)) }), notVerified},
	"of other data": {signs(func(e *engine, r asking) []byte {
		return e.signature(r.key, toSign{Input: make([]byte, 32), Version: 1})
	}), notVerified},
	"of another version": {signs(func(e *engine, r asking) []byte { return e.signature(r.key, toSign{Input: r.toSign.Input, Version: 2}) }), notVerified},
	"of another key":     {signs(func(_ *engine, r asking) []byte { return newEngine().signature(r.key, r.toSign) }), notVerified},
	"of a version that is none": {func(e *engine, w http.ResponseWriter, r asking) {
		_, _ = io.WriteString(w, dataOf(written(r.key, 3, e.signature(r.key, r.toSign))))
	}, "the key is not found: vault has no version 3"},
}

// hostileDescriptions has answers to a request to describe a key.
var hostileDescriptions = map[string]hostileAnswer{
	"200 with errors":  {always(says(200, `{"errors":[%s]}`)), noEngineKey},
	"no data":          {always(says(200, `{"data":null}`)), noEngineKey},
	"an echo with 400": {always(says(400, `{"errors":[%s]}`)), "it answered 400"},
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
	"a half of P-224":             {public(pemOf(newKey(elliptic.P224()).Public())), "is needed"},
	"a half of P-384":             {public(pemOf(newKey(elliptic.P384()).Public())), "is needed"},
	"a half of P-521":             {public(pemOf(newKey(elliptic.P521()).Public())), "is needed"},
	"a half of 31 bytes":          {public(base64.StdEncoding.EncodeToString(make([]byte, 31))), "is needed"},
	"the halves of another": {func(_ *engine, w http.ResponseWriter, r asking) {
		_, _ = io.WriteString(w, dataOf(newEngine().about(r.key)))
	}, notVerified},
	"as many versions as fit": {describes(func(about map[string]any, _ asking) {
		versions := about["keys"].(map[string]any)
		for i := range 8000 {
			versions[strconv.Itoa(i+1)] = versions["1"]
		}
	}), notVerified},
}
