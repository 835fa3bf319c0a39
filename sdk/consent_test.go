package sdk

import (
	"errors"
	"reflect"
	"testing"

	"github.com/keywright/keywright/internal/contract"
)

// consenter is a plugin whose users give consent.
type consenter struct {
	Plugin
	consent Consent
	got     Code
	err     error
}

func (p *consenter) Consent(*Call) (Consent, error) { return p.consent, p.err }

func (p *consenter) Connect(_ *Call, code Code) error {
	p.got = code
	return p.err
}

func (p *consenter) Disconnect(*Call) error { return p.err }

// inputs is an Env with an input.
type inputs struct {
	contract.Env
	text string
}

func (e inputs) Input() []byte { return []byte(e.text) }

func TestConsentContract(t *testing.T) {
	p := &consenter{consent: Consent{URL: "https://a.test", Query: []Pair{{"scope", "a b"}}, Issuer: "https://i.test", IssRequired: true, CodeParameter: "c", NoPKCE: true}}
	output, err := dispatch(p, nil, contract.ExportConsent)
	if err != nil {
		t.Fatal(err)
	}
	var got contract.ConsentRequest
	decode(t, output, &got)
	same(t, reflect.ValueOf(p.consent), reflect.ValueOf(got))
	if output, err := dispatch(&consenter{}, nil, contract.ExportConsent); err != nil || output != `{"url":""}` {
		t.Errorf("without anything the output is %s, %v", output, err)
	}
}

func TestConnectGetsTheCode(t *testing.T) {
	p := &consenter{}
	if _, err := dispatch(p, inputs{text: `{"code":"c","code_verifier":"v","redirect_uri":"https://r.test/?a","later":1}`}, contract.ExportConnect); err != nil {
		t.Fatal(err)
	}
	if want := (Code{Code: "c", Verifier: "v", RedirectURI: "https://r.test/?a"}); p.got != want {
		t.Errorf("connect gets %+v, want %+v", p.got, want)
	}
}

func TestErrorsOfConsent(t *testing.T) {
	want := errors.New("no")
	for _, export := range []string{contract.ExportConsent, contract.ExportConnect, contract.ExportDisconnect} {
		if _, err := dispatch(&consenter{err: want}, inputs{text: "{}"}, export); !errors.Is(err, want) {
			t.Errorf("%s returns %v", export, err)
		}
		if _, err := dispatch(struct{ Plugin }{}, inputs{text: "{}"}, export); !errors.Is(err, errNoConsent) {
			t.Errorf("%s of another plugin returns %v", export, err)
		}
	}
}
