package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
)

// setTime sets the time of the host, in Unix milliseconds.
func setTime(h *hosttest.Harness, millis int64) { h.Advance(time.UnixMilli(millis).Sub(h.Now())) }

func get(target string) func() *http.Request {
	return func() *http.Request { return hosttest.GET(target) }
}

func post(target, body string) func() *http.Request {
	return func() *http.Request { return hosttest.POST(target, body) }
}

const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

// Each of these is a real scheme; docs/auth-types.md configures some. The expected values are those of its documentation if that has an
// example, of ccxt 4.5.22 for Bitfinex, KuCoin and Poloniex, and otherwise of the command openssl dgst.
func TestSchemes(t *testing.T) {
	for _, test := range []struct {
		name, secret string
		millis       int64
		fields       hosttest.Config
		request      func() *http.Request
		headers      map[string]string
		query        string
	}{
		{
			name: "Coinbase Exchange", secret: "c2VjcmV0IG9mIHRoZSBleGNoYW5nZQ==", millis: 1700000000123,
			fields: hosttest.Config{
				"secret_encoding": "base64", "encoding": "base64",
				"message": "{timestamp}{method}{target}{body}", "key": "CB-ACCESS-SIGN",
				"headers": map[string]any{"CB-ACCESS-KEY": "k", "CB-ACCESS-TIMESTAMP": "{timestamp}", "CB-ACCESS-PASSPHRASE": "p"},
			},
			request: post("https://api.exchange.coinbase.com/orders?a=b", `{"price":"1.0"}`),
			headers: map[string]string{
				"CB-ACCESS-KEY": "k", "CB-ACCESS-TIMESTAMP": "1700000000", "CB-ACCESS-PASSPHRASE": "p",
				"CB-ACCESS-SIGN": "1ERgSkN6JAm849RkWRSyRbVofNJRGTRtdSGFw5FfkEg=",
			},
			query: "a=b",
		},
		{
			name: "Binance", secret: "NhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZjInClVN65XAbvqqM6A7H5fATj0j", millis: 1499827319559,
			fields: hosttest.Config{
				"message": "{query}{body}", "in": "query", "key": "signature",
				"query":   map[string]any{"timestamp": "{timestamp_ms}", "recvWindow": 5000},
				"headers": map[string]any{"X-MBX-APIKEY": "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"},
			},
			request: post("https://api.binance.com/api/v3/order?symbol=LTCBTC&side=BUY&type=LIMIT&timeInForce=GTC&quantity=1&price=0.1", ""),
			headers: map[string]string{"X-MBX-APIKEY": "vmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw0MuIgwCIPy6utIco14y7Ju91duEh8A"},
			query: "symbol=LTCBTC&side=BUY&type=LIMIT&timeInForce=GTC&quantity=1&price=0.1&recvWindow=5000&timestamp=1499827319559" +
				"&signature=c8db56825ae71d6d79447849e617115f4a920fa2acdcab2b053c4b2838bd6b71",
		},
		{
			name: "Bitfinex", secret: "s3cr3t-of-the-exchange", millis: 1700000000123,
			fields: hosttest.Config{
				"algorithm": "SHA-384", "message": "/api{path}{counter}{body}", "key": "bfx-signature",
				"headers": map[string]any{"bfx-nonce": "{counter}", "bfx-apikey": "k"},
			},
			request: post("https://api.bitfinex.com/v2/auth/w/order/submit", `{"symbol":"tBTCUSD","amount":"0.5"}`),
			headers: map[string]string{
				"bfx-nonce": "1700000000123", "bfx-apikey": "k",
				"bfx-signature": "e99327a2af338c5a8f0caa6f6ca23d616bb69a3ef81a56f33cd71ea21e1b3f0f613e244b31fd4bb0ef97e5f4a31c1c5f",
			},
		},
		{
			name: "KuCoin", secret: "s3cr3t-of-the-exchange", millis: 1700000000123,
			fields: hosttest.Config{
				"encoding": "base64", "signed": map[string]any{"pass": "p"}, "message": "{timestamp_ms}{method}{target}{body}", "key": "KC-API-SIGN",
				"headers": map[string]any{"KC-API-TIMESTAMP": "{timestamp_ms}", "KC-API-PASSPHRASE": "{pass}"},
			},
			request: post("https://api.kucoin.com/api/v1/orders", `{"symbol":"BTC-USDT","size":"1"}`),
			headers: map[string]string{
				"KC-API-TIMESTAMP": "1700000000123", "KC-API-PASSPHRASE": "3JQcA/aHdzx9JHmc5JMrkUVnLF9zmobqCXeQHj1YOL8=",
				"KC-API-SIGN": "jsf5b878d4QuvT+gpH2nugiGweFnbLuOp/CRH54kXbM=",
			},
		},
		{
			name: "Poloniex, a query", secret: "s3cr3t-of-the-exchange", millis: 1700000000123,
			fields: hosttest.Config{
				"encoding": "base64", "parts": map[string]any{"all": "{query}&signTimestamp={counter}"}, "message": `{method}\n{path}\n{all|query_sorted}`, "key": "signature",
				"headers": map[string]any{"key": "k", "signTimestamp": "{counter}"},
			},
			request: get("https://api.poloniex.com/orders?symbol=BTC_USDT&limit=5"),
			headers: map[string]string{"key": "k", "signTimestamp": "1700000000123", "signature": "fMhVuDZg1HbsIoZO8mApcUL2SmzZajsOd0U+yRnSjNg="},
			query:   "symbol=BTC_USDT&limit=5",
		},
		{
			name: "Poloniex, a body", secret: "s3cr3t-of-the-exchange", millis: 1700000000123,
			fields: hosttest.Config{
				"encoding": "base64", "message": `{method}\n{path}\nrequestBody={body}&signTimestamp={counter}`, "key": "signature",
				"headers": map[string]any{"key": "k", "signTimestamp": "{counter}"},
			},
			request: post("https://api.poloniex.com/orders", `{"symbol":"BTC_USDT","quantity":"1"}`),
			headers: map[string]string{"key": "k", "signTimestamp": "1700000000123", "signature": "HPBJWNWx2hBFdxAGymztnnuNx2VWchpA2jBFWzvlpUA="},
		},
		{
			name: "Stripe's webhooks", secret: "whsec_of_the_endpoint", millis: 1700000000999,
			fields:  hosttest.Config{"message": "{timestamp}.{body}", "key": "Stripe-Signature", "value": "t={timestamp},v1={signature}"},
			request: post("https://hooks.test/in", `{"id":"evt_1"}`),
			headers: map[string]string{"Stripe-Signature": "t=1700000000,v1=f8f3e866d8a5698273f7e357d7b34d3cba0be42cf194619f4a0513722ccb52e6"},
		},
		{
			name: "Standard Webhooks", secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", millis: 1614265330000,
			fields: hosttest.Config{
				"secret_encoding": "base64", "encoding": "base64", "message": "{header:webhook-id}.{timestamp}.{body}",
				"key": "webhook-signature", "value": "v1,{signature}",
				"headers": map[string]any{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "{timestamp}"},
			},
			request: post("https://hooks.test/in", `{"test": 2432232314}`),
			headers: map[string]string{
				"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
				"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
			},
		},
		{
			name: "Hawk", secret: "werxhqb98rpaxn39848xrunpaw3489ruxnpa98w4rxn", millis: 1353832234000,
			fields: hosttest.Config{
				"encoding": "base64", "key": "Authorization",
				"message": `hawk.1.header\n{timestamp}\nj4h3g2\n{method}\n{target}\n{hostname}\n{port}\n\nsome-app-ext-data\n`,
				"value":   `Hawk id="dh37fgj492je", ts="{timestamp}", nonce="j4h3g2", ext="some-app-ext-data", mac="{signature}"`,
			},
			request: get("https://example.com:8000/resource/1?b=1&a=2"),
			headers: map[string]string{
				"Authorization": `Hawk id="dh37fgj492je", ts="1353832234", nonce="j4h3g2", ext="some-app-ext-data", mac="6R4rV5iE+NPoym+WwjeHzjAGXUtLNIxmo1vpMofpLAE="`,
			},
			query: "b=1&a=2",
		},
		{
			name: "Slack's requests", secret: "8f742231b10e8888abcd99yyyzzz85a5", millis: 1531420618000,
			fields: hosttest.Config{
				"message": "v0:{timestamp}:{body}", "key": "X-Slack-Signature", "value": "v0={signature}",
				"headers": map[string]any{"X-Slack-Request-Timestamp": "{timestamp}"},
			},
			request: post("https://hooks.test/in", slackBody),
			headers: map[string]string{
				"X-Slack-Request-Timestamp": "1531420618",
				"X-Slack-Signature":         "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
			},
		},
		{
			name: "Shopify's webhooks", secret: "hush, the shared secret", millis: 1700000000000,
			fields:  hosttest.Config{"message": "{body}", "encoding": "base64", "key": "X-Shopify-Hmac-Sha256"},
			request: post("https://hooks.test/in", `{"id":1}`),
			headers: map[string]string{"X-Shopify-Hmac-Sha256": "NUBip5JQ7FrMZ9tbRZLfjoKa42r7e/H6tUIpp+l1Kjk="},
		},
		{
			name: "Amazon S3, signature version 2", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", millis: 1175024202000,
			fields: hosttest.Config{
				"algorithm": "SHA-1", "encoding": "base64", "key": "Authorization", "value": "AWS AKIAIOSFODNN7EXAMPLE:{signature}",
				"message": `{method}\n{header:Content-MD5}\n{header:Content-Type}\n{header:Date}\n/awsexamplebucket1{path}`,
				"headers": map[string]any{"Date": "{time:%a, %d %b %Y %H:%M:%S +0000}"},
			},
			request: get("https://awsexamplebucket1.us-west-1.s3.amazonaws.com/photos/puppy.jpg"),
			headers: map[string]string{
				"Date": "Tue, 27 Mar 2007 19:36:42 +0000", "Authorization": "AWS AKIAIOSFODNN7EXAMPLE:qgk2+6Sv9/oM7G3qLEjTH1a1l1g=",
			},
		},
		{
			name: "OKX", secret: "22582BD0CFF14C41EDBF1AB98506286D", millis: 1607418537715,
			fields: hosttest.Config{
				"message": "{header:OK-ACCESS-TIMESTAMP}{method}{target}{body}", "encoding": "base64", "key": "OK-ACCESS-SIGN",
				"headers": map[string]any{"OK-ACCESS-TIMESTAMP": "{time:%Y-%m-%dT%H:%M:%S.%LZ}"},
			},
			request: get("https://www.okx.com/api/v5/account/balance?ccy=BTC"),
			headers: map[string]string{"OK-ACCESS-TIMESTAMP": "2020-12-08T09:08:57.715Z", "OK-ACCESS-SIGN": "HiZhvSfMtWJA3uUIVXV3a/bSXNPCWvYFXoGCVS8V4zY="},
			query:   "ccy=BTC",
		},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("key", test.secret)
			setTime(h, test.millis)
			test.fields["secret"] = "{{ get_secret('key') }}"
			got := h.Authenticate(test.fields, test.request())
			for name, want := range test.headers {
				if got.Header(name) != want {
					t.Errorf("%s: %s\nis not %s", name, got.Header(name), want)
				}
			}
			if len(got.Request.Header) != len(test.headers) || got.Request.URL.RawQuery != test.query {
				t.Errorf("headers %v, query %s", got.Request.Header, got.Request.URL.RawQuery)
			}
		})
	}
}
