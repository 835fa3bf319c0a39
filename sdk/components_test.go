package sdk

import "testing"

// A list is parsed however it is written, and each component has a template of its value.
func TestParseComponents(t *testing.T) {
	covered, err := ParseComponents(`("@method" @query-param;name=a%2a+b` + "\n" + `X-One  "signature-agent";key="bot")`)
	if err != nil {
		t.Fatal(err)
	}
	want := Components{
		{`"@method"`, "@method", "", "{method}"},
		{`"@query-param";name="a*%20b"`, "@query-param", "a*%20b", "{query_param:a*%20b|required}"},
		{`"x-one"`, "x-one", "", "{header:x-one|required}"},
		{`"signature-agent";key="bot"`, "signature-agent", "bot", "{header:signature-agent|required}"},
	}
	if len(covered) != len(want) {
		t.Fatalf("covered = %v", covered)
	}
	for i, c := range covered {
		if c != want[i] {
			t.Errorf("%+v, not %+v", c, want[i])
		}
	}
	if covered.Find("x-one") != &covered[2] || covered.Find("X-One") != nil {
		t.Error("a component is found by its name")
	}
	if covered, err := ParseComponents("( )"); len(covered) != 0 || err != nil {
		t.Errorf("an empty list is %v, %v", covered, err)
	}
}

// The error for a list that cannot be signed has the word, and says why.
func TestUnsignableLists(t *testing.T) {
	for list, want := range map[string]string{
		"":                          "names nothing to sign: write () if that is meant",
		"@method host":              "has host, which is signed as @authority",
		"x-a X-A":                   "has X-A, which is there twice",
		"@query-param;name=":        "has @query-param;name=, which needs the name of a parameter, such as @query-param;name=id",
		`@query-param;name="a";req`: `has @query-param;name="a";req, which has a parameter that is not supported: there are @query-param;name=… and signature-agent;key=…`,
		"signature-agent;key=Bot":   "has signature-agent;key=Bot, which has a parameter that is not supported: there are @query-param;name=… and signature-agent;key=…",
		"x-a|sha256|hex":            "has x-a|sha256|hex, which is a header with |, whose value cannot be composed", // and no placeholder of another text
		"@status":                   "has @status, which is not a component of a request",
		"Transfer-Encoding":         "has Transfer-Encoding, which is a header that only the HTTP client may set",
	} {
		if _, err := ParseComponents(list); err == nil || err.Error() != want {
			t.Errorf("%s: err = %v", list, err)
		}
	}
}
