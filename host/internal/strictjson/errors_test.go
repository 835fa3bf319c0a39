package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/testworld"
)

// A json.Number is written only if it is a number of JSON. Otherwise its text could add anything to the document.
func TestInvalidNumbers(t *testing.T) {
	for text, allowed := range map[string]bool{
		"0": true, "-1.5e3": true, "": false, "01": false, "1 2": false, "1,2": false, "+1": false, "true": false, `"1"`: false, "{}": false, "NaN": false,
	} {
		got, err := strictjson.AppendValue(nil, json.Number(text))
		if (err == nil) != allowed || allowed && string(got) != text {
			t.Errorf("%q becomes %q, %v", text, got, err)
		}
	}
}

// The error for a value of the wrong type has its place, shortened if it is long, and the wanted type.
func TestAValueOfTheWrongType(t *testing.T) {
	for _, tt := range []struct{ document, want string }{
		{`{"list": ["x"]}`, `has a value of the wrong type at "/list/0", a int is wanted`},
		{`{"` + strings.Repeat("n", 99) + `": "x"}`, `at "/` + strings.Repeat("n", 99) + `", a int`},
		{`{"` + strings.Repeat("n", 100) + `": "x"}`, `at "/` + strings.Repeat("n", 99) + `…", a int`},
	} {
		var v map[string]int
		var lists map[string][]int
		err := strictjson.Unmarshal([]byte(tt.document), &v)
		if strings.Contains(tt.document, "list") {
			err = strictjson.Unmarshal([]byte(tt.document), &lists)
		}
		testworld.WantError(t, tt.document, err, tt.want)
	}
}
