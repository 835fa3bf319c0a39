package main

import (
	"net/http"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// The headers are those of RFC 7616 section 3.9.1, for both algorithms, and of section 3.9.2. The userhash and the response
// of the latter are wrong in the RFC; these are those of erratum 4897.
func TestExamplesOfTheRFC(t *testing.T) {
	const lions = `Digest realm="http-auth@example.org", qop="auth, auth-int", nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", ` +
		`opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS", algorithm=`
	const lion = `Digest username="Mufasa", realm="http-auth@example.org", uri="/dir/index.html", algorithm=`
	const cnonce = `, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", nc=00000001, cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", qop=auth, response=`
	const opaque = `, opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`
	for _, test := range []struct{ name, user, password, url, challenge, cnonce, want string }{
		{
			"3.9.1 with MD5", "Mufasa", "Circle of Life", "http://www.example.org/dir/index.html", lions + "MD5",
			"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
			lion + "MD5" + cnonce + `"8ca523f5e9506fed4657c9700eebdbec"` + opaque,
		},
		{
			"3.9.1 with SHA-256", "Mufasa", "Circle of Life", "http://www.example.org/dir/index.html", lions + "SHA-256",
			"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
			lion + "SHA-256" + cnonce + `"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"` + opaque,
		},
		{
			"3.9.2", "Jäsøn Doe", "Secret, or not?", "http://api.example.org/doe.json",
			`Digest realm="api@example.org", qop="auth", algorithm=SHA-512-256, nonce="5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK", ` +
				`opaque="HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS", charset=UTF-8, userhash=true`,
			"NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v",
			`Digest username="793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b", realm="api@example.org", ` +
				`uri="/doe.json", algorithm=SHA-512-256, nonce="5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK", nc=00000001, ` +
				`cnonce="NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v", qop=auth, ` +
				`response="3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5", ` +
				`opaque="HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS", userhash=true`,
		},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.AllowHTTP()
			h.Secret("password", test.password)
			h.Random(test.cnonce)
			h.API(func(r *http.Request) (*http.Response, error) {
				response, err := hosttest.JSON(401, "{}")(r)
				response.Header.Set("WWW-Authenticate", test.challenge)
				return response, err
			}, hosttest.JSON(200, "{}"))
			c := hosttest.Config{"username": test.user, "password": "{{ get_secret('password') }}"}
			plugintest.Sends(t, h, c, hosttest.GET(test.url), test.want)
		})
	}
}
