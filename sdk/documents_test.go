package sdk

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Description and Mutation have the same fields as in package abi, and every field is written to the JSON document.
func TestContractDocuments(t *testing.T) {
	minimum, maximum := int64(3), int64(4)
	description := Description{
		ABI: 1, Type: "t", Aliases: []string{"a"}, Version: "v", Summary: "s", Homepage: "h", License: "l", Uses: []Group{"u"}, Anonymous: true,
		Fields: []Field{{
			Name: "n", Aliases: []string{"o"}, Kind: "k", Required: true, RequiredIf: []Condition{{Field: "f", Values: []string{"v", "w"}, Absent: true}},
			OnlyIf: []Condition{{Field: "g", Values: []string{"u"}, Absent: true}}, Sealed: true,
			Sinks: []Sink{"s"}, Derived: []Sink{"r"}, Enum: []string{"e"}, Default: "d",
			Minimum: &minimum, Maximum: &maximum, Pattern: "p", PatternMessage: "m",
			AlgorithmField: "f", Algorithms: []Pair{{Name: "a", Value: "b"}}, EncodingField: "e", Composed: true, Values: []string{"v"}, Purposes: []Purpose{"p"}, Generate: true, Escape: "x", Suggested: []string{"u"}, Doc: "doc", Obtain: "o",
		}},
		Answers: []Answer{{
			Name: "n", From: "f", Alternative: "a", FromField: "o", Kind: "k", Sinks: []Sink{"s"}, Derived: []Sink{"r"}, Enum: []string{"e"}, Pattern: "p", Required: true, State: "x", Keep: true,
		}},
		State:   []State{{Name: "x", Seed: "n"}},
		Consent: true,
		Challenge: &Challenge{Statuses: []int{401, 403}, Keep: 5 * time.Second, OnlyIf: []Condition{{Field: "f", Absent: true, Values: []string{"v"}}}, Answers: []Answer{{
			Name: "m", From: "f", Alternative: "a", FromField: "o", Kind: "k", Sinks: []Sink{"s"}, Derived: []Sink{"r"}, Enum: []string{"e"}, Pattern: "p", Required: true, State: "x", Keep: true,
		}}},
	}
	pair := []Pair{{Name: "h", Value: "1"}}
	mutation := Mutation{Headers: pair, Query: pair, Cookies: pair, Path: pair, Form: pair, URL: "u", Pass: true}
	var described abi.Description
	var changed contract.Mutation
	p := fixed{description, mutation}
	decode(t, testworld.Must(dispatch(p, nil, contract.ExportDescribe))(t), &described)
	decode(t, testworld.Must(dispatch(p, nil, contract.ExportAuthenticate))(t), &changed)
	same(t, reflect.ValueOf(description), reflect.ValueOf(described))
	same(t, reflect.ValueOf(mutation), reflect.ValueOf(changed))
}

// fixed is a plugin that is the same for each call.
type fixed struct {
	description Description
	mutation    Mutation
}

func (p fixed) Describe() Description { return p.description }

func (p fixed) Authenticate(*Call) (Mutation, error) { return p.mutation, nil }

// decode decodes a document into target. A member that target lacks is an error.
func decode(t *testing.T, document string, target any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		t.Fatalf("%s: err = %v", document, err)
	}
}

// same compares two values of different types: fields by name, and their contents. No field may be empty.
func same(t *testing.T, one, counterpart reflect.Value) {
	t.Helper()
	if counterpart.Kind() == reflect.Map { // which the SDK has as pairs
		for i := range one.Len() {
			pair := one.Index(i).Interface().(Pair)
			same(t, reflect.ValueOf(pair.Value), counterpart.MapIndex(reflect.ValueOf(pair.Name)))
		}
		return
	}
	switch one.Kind() {
	case reflect.Struct:
		if one.NumField() != counterpart.NumField() {
			t.Errorf("%s has %d fields, %s has %d", one.Type(), one.NumField(), counterpart.Type(), counterpart.NumField())
		}
		for i := range one.NumField() {
			name := one.Type().Field(i).Name
			if field := counterpart.FieldByName(name); !field.IsValid() || one.Field(i).IsZero() {
				t.Errorf("%s.%s is not in %s, or not in this test", one.Type(), name, counterpart.Type())
			} else {
				same(t, one.Field(i), field)
			}
		}
	case reflect.Slice:
		if one.Len() != counterpart.Len() {
			t.Fatalf("%v is written as %v", one, counterpart)
		}
		for i := range one.Len() {
			same(t, one.Index(i), counterpart.Index(i))
		}
	case reflect.Pointer:
		same(t, one.Elem(), counterpart.Elem())
	default:
		if d, ok := one.Interface().(time.Duration); ok {
			one = reflect.ValueOf(d / time.Second)
		}
		if !one.Convert(counterpart.Type()).Equal(counterpart) {
			t.Errorf("%v is written as %v", one, counterpart)
		}
	}
}

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
	push := &Push{URL: "https://p.test", Form: []Pair{{"client_secret", "s"}}, Headers: []Pair{{"Authorization", "b"}}}
	p := &consenter{consent: Consent{URL: "https://a.test", Query: []Pair{{"scope", "a b"}}, Issuer: "https://i.test", IssRequired: true, CodeParameter: "c", NoPKCE: true, Push: push}}
	output := testworld.Must(dispatch(p, nil, contract.ExportConsent))(t)
	var got contract.ConsentRequest
	decode(t, output, &got)
	same(t, reflect.ValueOf(p.consent), reflect.ValueOf(got))
	if output, err := dispatch(&consenter{}, nil, contract.ExportConsent); err != nil || output != `{"url":""}` {
		t.Errorf("without anything the output is %s, %v", output, err)
	}
}

func TestConnectGetsTheCode(t *testing.T) {
	p := &consenter{}
	testworld.Must(dispatch(p, inputs{text: `{"code":"c","code_verifier":"v","redirect_uri":"https://r.test/?a","later":1}`}, contract.ExportConnect))(t)
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
